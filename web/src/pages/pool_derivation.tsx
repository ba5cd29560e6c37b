import {Dialog} from '@gravity-ui/uikit';
import {useQueries} from '@tanstack/react-query';

import {escapeKey, get} from '../api/client';
import {live, orchid} from '../api/queries';
import type {Pool, Resource} from '../api/types';
import {decimal, share} from '../model/format';
import {boundOf, type Bound, pathTo, rootName} from '../model/tree';
import {Anchor} from '../parts/anchor';
import {PartsBar} from '../parts/bars';
import {Waiting} from '../parts/states';
import {to} from '../shell/routing';
import {type Key, useTexts} from '../text/i18n';

const sentences: Record<Bound, Key> = {
  demand: 'It gets all of its demand.',
  limit: 'It demands more, but its limit allows no more.',
  parent: 'It demands more, as do its siblings; they share the rest of the parent pool by weight.',
};

interface DerivationProps {
  tree: string;
  name: string;
  all: Record<string, Pool>;
  onClose: () => void;
}

/** ShareDerivation shows how the fair share of a pool was computed: from the pool up to the root, by
 * cause. */
export function ShareDerivation({tree, name, all, onClose}: DerivationProps) {
  const {t, word} = useTexts();
  const chain = [...pathTo(all, name).reverse(), ...(name === rootName ? [] : [rootName])];
  const pools = useQueries({
    queries: chain.map((pool) => {
      const path = `${orchid}/pool_trees/${escapeKey(tree)}/pools/${escapeKey(pool)}`;
      return {queryKey: ['get', path, {}], queryFn: ({signal}: {signal: AbortSignal}) => get<Pool>(path, {}, signal), refetchInterval: live};
    }),
  });
  const own = pools[0]?.data;
  return (
    <Dialog open onClose={onClose} maxWidth="l" fullWidth aria-label={t('Where the fair share comes from')} disableTransition>
      <Dialog.Header caption={t('Where the fair share comes from')} />
      <Dialog.Body>
        {own ? (
          <div className="stack dialog__body">
            <p>
              {t(sentences[boundOf(own)])}{' '}
              <span className="muted">{t("Shares are of {resource}, the pool's dominant resource.", {resource: word(own.dominant_resource)})}</span>
            </p>
            <Chain tree={tree} chain={chain} pools={pools.map((query) => query.data)} resource={own.dominant_resource} />
            <p className="legend">
              <i className="dot dot_strong" /> {t('strong guarantee')} <i className="dot dot_integral" /> {t('integral guarantee')}{' '}
              <i className="dot dot_weight" /> {t('by weight')}
            </p>
            <p className="muted">
              {t('Guarantees come first, then accumulated volume; the rest is divided by weight until demand or the limit is reached.')}
            </p>
          </div>
        ) : (
          <Waiting />
        )}
      </Dialog.Body>
    </Dialog>
  );
}

function Chain({tree, chain, pools, resource}: {tree: string; chain: string[]; pools: (Pool | undefined)[]; resource: Resource}) {
  const {t, locale} = useTexts();
  return (
    <div className="scroll" tabIndex={0} role="region" aria-label={t('From the pool up to the root')}>
      <table className="plain plain_tight plain_cards">
        <thead>
          <tr>
            <th>{t('From the pool up to the root')}</th>
            <th className="numeric">{t('Fair share')}</th>
            <th>{t('By cause')}</th>
            <th className="numeric">{t('Usage')}</th>
            <th className="numeric">{t('Demand')}</th>
            <th className="numeric">{t('Guarantee')}</th>
            <th className="numeric">{t('Limit')}</th>
            <th className="numeric">{t('Weight')}</th>
          </tr>
        </thead>
        <tbody>
          {chain.map((name, i) => {
            const pool = pools[i];
            if (!pool) return null;
            const split = pool.detailed_fair_share;
            const parts = [
              {kind: 'strong', value: split.strong_guarantee[resource] ?? 0, title: t('strong guarantee')},
              {kind: 'integral', value: split.integral_guarantee[resource] ?? 0, title: t('integral guarantee')},
              {kind: 'weight', value: split.weight_proportional[resource] ?? 0, title: t('by weight')},
            ].map((part) => ({...part, title: `${part.title} ${share(part.value, locale)}`}));
            return (
              <tr key={name}>
                <th scope="row">
                  <Anchor href={to.pool(tree, name)}>{name}</Anchor>
                </th>
                <td className="numeric" data-label={t('Fair share')}>{share(pool.fair_share[resource], locale)}</td>
                <td className="plain__bar plain__bar_short" data-label={t('By cause')}>
                  <PartsBar whole={1} label={parts.map((part) => part.title).join(', ')} parts={parts} />
                </td>
                <td className="numeric" data-label={t('Usage')}>{share(pool.usage_share[resource], locale)}</td>
                <td className="numeric" data-label={t('Demand')}>{share(pool.demand_share[resource], locale)}</td>
                <td className="numeric" data-label={t('Guarantee')}>{share(pool.strong_guarantee_share[resource], locale)}</td>
                <td className="numeric" data-label={t('Limit')}>{share(pool.limits_share[resource], locale)}</td>
                <td className="numeric" data-label={t('Weight')}>{decimal(pool.weight, locale)}</td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}
