import type {ReactNode} from 'react';

import {ApiError, escapeKey} from '../api/client';
import {orchid, useCommand, useGet} from '../api/queries';
import type {Node, OperationList, Pool} from '../api/types';
import {nearest} from '../model/near';
import {rootName} from '../model/tree';
import {Anchor} from '../parts/anchor';
import {useCluster} from '../shell/cluster';
import {to} from '../shell/routing';
import {useTexts} from '../text/i18n';

const codeResolve = 500;
const codeNoSuchOperation = 1915;

/** isMissing reports whether the server refused a request because there is no such thing. */
export function isMissing(error: unknown): boolean {
  return error instanceof ApiError && (error.document.code === codeResolve || error.document.code === codeNoSuchOperation);
}

interface Link {
  href: string;
  text: string;
  note?: string;
}

/** Missing says that something is not there, what may have been meant, and where to look. */
function Missing({title, why, near, links}: {title: string; why: string; near: Link[]; links: Link[]}) {
  const {t} = useTexts();
  return (
    <div className="missing">
      <h1 className="page__title">{title}</h1>
      <p>{why}</p>
      {near.length > 0 && <Links title={t('Did you mean')} list={near} />}
      <Links title={t('Where to look')} list={links} />
    </div>
  );
}

function Links({title, list}: {title: string; list: Link[]}): ReactNode {
  return (
    <section className="section">
      <h2>{title}</h2>
      <ul className="missing__links">
        {list.map((link) => (
          <li key={link.href}>
            <Anchor href={link.href}>{link.text}</Anchor> {link.note && <span className="muted">{link.note}</span>}
          </li>
        ))}
      </ul>
    </section>
  );
}

/** MissingPool is the page of a pool that is not there. */
export function MissingPool({tree, name}: {tree: string; name: string}) {
  const {t} = useTexts();
  const cluster = useCluster().data;
  const trees = Object.keys(cluster?.pool_trees ?? {});
  const there = trees.includes(tree);
  const home = there ? tree : (cluster?.default_pool_tree ?? '');
  const pools = useGet<Record<string, Pool>>(`${orchid}/pool_trees/${escapeKey(home)}/pools`, {fields: ['parent']}, {enabled: home !== ''});
  const names = Object.keys(pools.data ?? {}).filter((one) => one !== rootName);
  const near = names.includes(name) ? [name] : nearest(name, names);
  const all = (one: string): Link => ({href: to.scheduling(one), text: t('All pools of tree {name}', {name: one})});
  return (
    <Missing
      title={there || !cluster ? t('There is no pool {name} in tree {tree}', {name, tree}) : t('There is no tree {name}', {name: tree})}
      why={t('It may be misspelled, have another name now, or have been ephemeral: such a pool goes with its last operation.')}
      near={[
        ...near.map((one) => ({href: to.pool(home, one), text: one, note: home})),
        ...(there ? [] : nearest(tree, trees).map((one) => ({href: to.scheduling(one), text: one, note: t('tree')}))),
      ]}
      links={[...(there ? [all(tree)] : trees.map(all)), {href: to.operations({pool: name}), text: t('Operations that ran in {name}', {name})}]}
    />
  );
}

/** MissingNode is the page of a node that is not there. */
export function MissingNode({address}: {address: string}) {
  const {t} = useTexts();
  const list = useCommand<{nodes: Node[]}>('list_nodes', {});
  const names = (list.data?.nodes ?? []).map((node) => node.address);
  return (
    <Missing
      title={t('There is no node {name}', {name: address})}
      why={t('It may be misspelled, or has never registered with this cluster.')}
      near={nearest(address, names).map((one) => ({href: to.node(one), text: one}))}
      links={[{href: to.nodes(), text: t('All nodes')}, {href: `${to.events()}?node=${encodeURIComponent(address)}`, text: t('Events of {name}', {name: address})}]}
    />
  );
}

/** MissingOperation is the page of an operation that is not there. */
export function MissingOperation({id}: {id: string}) {
  const {t} = useTexts();
  const list = useCommand<OperationList>('list_operations', {filter: id, limit: 5});
  return (
    <Missing
      title={t('There is no operation {name}', {name: id})}
      why={t('The id may be incomplete, or the operation ended so long ago that it is no longer kept.')}
      near={(list.data?.operations ?? []).map((row) => ({href: to.operation(row.id), text: row.brief_spec.title ?? row.id, note: row.id}))}
      links={[{href: to.operations(), text: t('All operations')}, {href: to.operations({text: id}), text: t('Operations with “{text}” in their title, id or user', {text: id})}]}
    />
  );
}

/** MissingPage is for addresses that lead nowhere. */
export function MissingPage() {
  const {t} = useTexts();
  return (
    <div className="page">
      <Missing
        title={t('Page not found')}
        why={t('There is nothing at this address.')}
        near={[]}
        links={[
          {href: to.home(), text: t('Cluster')}, {href: to.scheduling(), text: t('Scheduling')}, {href: to.operations(), text: t('Operations')},
          {href: to.nodes(), text: t('Nodes')},
        ]}
      />
    </div>
  );
}
