import {Modal, TextInput} from '@gravity-ui/uikit';
import {useQueries} from '@tanstack/react-query';
import {useEffect, useMemo, useRef, useState} from 'react';

import {useCommand, orchid} from '../api/queries';
import {escapeKey, get} from '../api/client';
import type {Node, OperationList, Pool} from '../api/types';
import {rootName} from '../model/tree';
import {useTexts} from '../text/i18n';
import {useCluster} from './cluster';
import {navigate, to} from './routing';

interface Hit {
  key: string;
  kind: string;
  text: string;
  note: string;
  href: string;
}

const most = 8;

/** SearchDialog finds pools, operations and nodes by name; arrow keys select, Enter opens. */
export function SearchDialog({onClose}: {onClose: () => void}) {
  const {t} = useTexts();
  const [text, setText] = useState('');
  const [asked, setAsked] = useState('');
  const [chosen, setChosen] = useState(0);
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => {
    const timer = setTimeout(() => setAsked(text.trim()), 200);
    return () => clearTimeout(timer);
  }, [text]);
  const hits = useHits(text.trim(), asked);
  const go = (hit: Hit | undefined) => {
    if (!hit) return;
    navigate(hit.href);
    onClose();
  };
  return (
    <Modal open onOpenChange={(open) => !open && onClose()} aria-label={t('Search')} initialFocus={input} disableTransition>
      <div className="search">
        <TextInput
          controlRef={input}
          size="xl"
          value={text}
          placeholder={t('Pool, operation, node')}
          onUpdate={(next) => {
            setText(next);
            setChosen(0);
          }}
          onKeyDown={(event) => {
            if (event.key === 'ArrowDown') setChosen(Math.min(hits.length - 1, chosen + 1));
            else if (event.key === 'ArrowUp') setChosen(Math.max(0, chosen - 1));
            else if (event.key === 'Enter') go(hits[chosen]);
            else return;
            event.preventDefault();
          }}
          controlProps={{
            'aria-label': t('Search'), role: 'combobox', 'aria-expanded': true, 'aria-controls': 'search-hits',
            'aria-activedescendant': hits[chosen] ? `hit-${chosen}` : undefined,
          }}
        />
        <ul className="search__hits" id="search-hits" role="listbox" aria-label={t('Results')}>
          {hits.map((hit, i) => (
            <li
              key={hit.key} id={`hit-${i}`} role="option" aria-selected={i === chosen}
              className={`search__hit${i === chosen ? ' search__hit_chosen' : ''}`} onClick={() => go(hit)} onMouseEnter={() => setChosen(i)}
            >
              <span className="muted search__kind">{hit.kind}</span>
              <span className="search__text">{hit.text}</span>
              <span className="muted">{hit.note}</span>
            </li>
          ))}
        </ul>
        {text.trim() !== '' && hits.length === 0 && <p className="muted search__none">{t('Nothing found')}</p>}
      </div>
    </Modal>
  );
}

function useHits(text: string, asked: string): Hit[] {
  const {t} = useTexts();
  const trees = Object.keys(useCluster().data?.pool_trees ?? {});
  const pools = useQueries({
    queries: trees.map((tree) => {
      const path = `${orchid}/pool_trees/${escapeKey(tree)}/pools`;
      const fields = {fields: ['parent']};
      return {queryKey: ['get', path, fields], queryFn: ({signal}: {signal: AbortSignal}) => get<Record<string, Pool>>(path, fields, signal), structuralSharing: false};
    }),
    combine: (answers) => answers.map((answer) => Object.keys(answer.data ?? {})),
  });
  const operations = useCommand<OperationList>('list_operations', {filter: asked, limit: most, include_counters: false}, {enabled: asked !== ''});
  const nodes = useCommand<{nodes: Node[]}>('list_nodes', {filter: asked, limit: most}, {enabled: asked !== ''});
  return useMemo(() => {
    if (text === '') return [];
    const small = text.toLowerCase();
    const hits: Hit[] = [];
    for (const [i, tree] of trees.entries()) {
      for (const name of pools[i] ?? []) {
        if (hits.length >= most) break;
        if (name === rootName || !name.toLowerCase().includes(small)) continue;
        hits.push({key: `p${tree}/${name}`, kind: t('Pool'), text: name, note: tree, href: to.pool(tree, name)});
      }
    }
    for (const row of operations.data?.operations ?? []) {
      hits.push({key: row.id, kind: t('Operation'), text: row.brief_spec.title ?? row.id, note: row.id, href: to.operation(row.id)});
    }
    for (const node of nodes.data?.nodes ?? []) {
      if (!node.address.toLowerCase().includes(small)) continue;
      hits.push({key: `n${node.address}`, kind: t('Node'), text: node.address, note: node.state, href: to.node(node.address)});
    }
    return hits;
  }, [text, pools, operations.data, nodes.data, trees.join(), t]);
}
