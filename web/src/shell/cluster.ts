import {live, useCommand} from '../api/queries';
import type {Cluster} from '../api/types';

/** useCluster watches the state of the cluster, of which every page shows a part. */
export function useCluster() {
  return useCommand<Cluster>('get_cluster', {}, {every: live});
}

/** alertsOf returns the alerts of a cluster and its trees as texts, except those of one type. */
export function alertsOf(cluster: Cluster | undefined, except = ''): string[] {
  if (!cluster) return [];
  const shown = cluster.alerts.filter((alert) => alert.attributes?.['alert_type'] !== except);
  const texts = shown.map((alert) => alert.message);
  for (const [name, tree] of Object.entries(cluster.pool_trees)) {
    for (const alert of tree.alerts) if (!texts.includes(alert)) texts.push(`${name}: ${alert}`);
  }
  return texts;
}
