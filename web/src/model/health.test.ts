import {describe, expect, it} from 'vitest';

import type {Cluster} from '../api/types';
import {shortfalls, shrunkOf, troublesOf} from './health';

const pool = (guarantee: number, effective: number, usage: number, demand: number, starvation = 'non_starving') => ({
  strong_guarantee_resources: {cpu: guarantee}, effective_strong_guarantee_resources: {cpu: effective}, resource_usage: {cpu: usage},
  resource_demand: {cpu: demand}, starvation_status: starvation, is_ephemeral: false,
});

describe('guarantees that are not kept', () => {
  it('are those of pools that ask for more than they have, with the cause', () =>
    expect(
      shortfalls({
        '<Root>': pool(10, 4, 1, 90),
        kept: pool(10, 10, 10, 50), modest: pool(10, 10, 2, 2), none: pool(0, 0, 0, 50), nearly: pool(10, 10, 9.95, 50), waits: pool(10, 10, 5, 50),
        starves: pool(10, 10, 0, 4, 'starving'), shrunk: pool(10, 6, 6, 50, 'starving'),
      }),
    ).toEqual([
      {pool: 'starves', resource: 'cpu', promised: 10, asked: 4, got: 0, cause: 'starving'},
      {pool: 'waits', resource: 'cpu', promised: 10, asked: 10, got: 5, cause: 'waiting'},
      {pool: 'shrunk', resource: 'cpu', promised: 10, asked: 10, got: 6, cause: 'capacity'},
    ]));

  it('may be broken although nobody asks for them yet', () => expect(shrunkOf({'<Root>': pool(10, 4, 0, 0), a: pool(10, 10, 0, 0), b: pool(10, 4, 0, 0)})).toEqual(['b']));
});

describe('a cluster', () => {
  const cluster = {reviving: false, held_back: [], online_node_count: 3, node_count: 3} as unknown as Cluster;
  it('is well only if nothing is wrong', () => expect(troublesOf(cluster, 0)).toEqual([]));
  it('has alerts, lost nodes and what a takeover holds back', () => {
    expect(troublesOf({...cluster, online_node_count: 2}, 1)).toEqual(['offline', 'alerts']);
    expect(troublesOf({...cluster, online_node_count: 0}, 0)).toEqual(['no_nodes']);
    expect(troublesOf({...cluster, reviving: true, held_back: [{}] as never}, 0)).toEqual(['reviving', 'held_back']);
  });
});
