import type {LiveOperation, Pool} from '../api/types';

export const rootName = '<Root>';

export type Row =
  | {kind: 'pool'; key: string; name: string; depth: number; pool: Pool; hasChildren: boolean; open: boolean}
  | {kind: 'operation'; key: string; name: string; depth: number; operation: LiveOperation; hasChildren: false; open: false};

export interface Forest {
  pools: Record<string, Pool>;
  children: Map<string, string[]>;
  operations: Map<string, [string, LiveOperation][]>;
}

/** forestOf groups pools and operations by their pool. */
export function forestOf(pools: Record<string, Pool>, operations: Record<string, LiveOperation> = {}): Forest {
  const children = new Map<string, string[]>();
  for (const [name, pool] of Object.entries(pools)) {
    if (name === rootName) continue;
    const parent = pool.parent ?? rootName;
    const list = children.get(parent);
    if (list) list.push(name);
    else children.set(parent, [name]);
  }
  const byPool = new Map<string, [string, LiveOperation][]>();
  for (const entry of Object.entries(operations)) {
    const list = byPool.get(entry[1].pool);
    if (list) list.push(entry);
    else byPool.set(entry[1].pool, [entry]);
  }
  return {pools, children, operations: byPool};
}

export interface View {
  filter: string;
  /** isOpen reports whether a pool is expanded. */
  isOpen: (name: string, depth: number) => boolean;
  /** compare orders siblings; ties are sorted by name. */
  compare?: (a: Row, b: Row) => number;
}

/** rowsOf lists the tree as rows, each parent before its children. With a filter it returns only matching
 * rows, their ancestors and everything below them. */
export function rowsOf(forest: Forest, view: View): Row[] {
  const text = view.filter.trim().toLowerCase();
  const wanted = text ? matching(forest, text) : undefined;
  const rows: Row[] = [];
  const walk = (parent: string, depth: number, whole: boolean) => {
    const siblings: Row[] = [];
    for (const name of forest.children.get(parent) ?? []) {
      if (wanted && !whole && !wanted.has(name)) continue;
      const hasChildren = forest.children.has(name) || forest.operations.has(name);
      const open = hasChildren && ((wanted !== undefined && !whole && !isMatch(name, text)) || view.isOpen(name, depth));
      siblings.push({kind: 'pool', key: `p:${name}`, name, depth, pool: forest.pools[name]!, hasChildren, open});
    }
    for (const [id, operation] of forest.operations.get(parent) ?? []) {
      if (wanted && !whole && !isMatch(id, text) && !isMatch(operation.title, text)) continue;
      siblings.push({kind: 'operation', key: `o:${id}`, name: id, depth, operation, hasChildren: false, open: false});
    }
    siblings.sort((a, b) => view.compare?.(a, b) || byKind(a, b));
    for (const row of siblings) {
      rows.push(row);
      if (row.open) walk(row.name, depth + 1, whole || (wanted !== undefined && isMatch(row.name, text)));
    }
  };
  walk(rootName, 0, false);
  return rows;
}

/** topRows returns the shown pools that no other shown pool contains; with a filter, only those that match. Sums
 * over them count nothing twice. */
export function topRows(rows: Row[], filter: string): Extract<Row, {kind: 'pool'}>[] {
  const text = filter.trim().toLowerCase();
  const found: Extract<Row, {kind: 'pool'}>[] = [];
  let inside = Infinity;
  for (const row of rows) {
    if (row.depth <= inside) inside = Infinity;
    if (inside < Infinity || row.kind !== 'pool' || (text !== '' && !isMatch(row.name, text))) continue;
    found.push(row);
    inside = row.depth;
  }
  return found;
}

function byKind(a: Row, b: Row): number {
  if (a.kind !== b.kind) return a.kind === 'pool' ? -1 : 1;
  if (a.kind === 'operation' && b.kind === 'operation') {
    const order = (a.operation.fifo_index ?? 0) - (b.operation.fifo_index ?? 0);
    if (order !== 0) return order;
  }
  return a.name < b.name ? -1 : a.name > b.name ? 1 : 0;
}

function isMatch(name: string | undefined, text: string): boolean {
  return (name ?? '').toLowerCase().includes(text);
}

/** matching returns the pools that match or contain a match. */
function matching(forest: Forest, text: string): Set<string> {
  const found = new Set<string>();
  const mark = (name: string | undefined) => {
    for (let at = name; at && at !== rootName && !found.has(at); at = forest.pools[at]?.parent) found.add(at);
  };
  for (const name of Object.keys(forest.pools)) if (isMatch(name, text)) mark(name);
  for (const [pool, list] of forest.operations) {
    if (list.some(([id, operation]) => isMatch(id, text) || isMatch(operation.title, text))) mark(pool);
  }
  return found;
}

/** pathTo returns the pools from the top level down to a pool. */
export function pathTo(pools: Record<string, Pool>, name: string): string[] {
  const path: string[] = [];
  for (let at: string | undefined = name; at && at !== rootName && path.length < 1000; at = pools[at]?.parent) path.unshift(at);
  return path;
}

/** charge returns how full the bucket of an integral guarantee is, from 0 to 1; undefined without one. */
export function charge(pool: Pool): number | undefined {
  const {accumulated_resource_ratio_volume: volume, integral_pool_capacity_ratio: capacity} = pool;
  if (volume === undefined || !capacity) return undefined;
  return Math.min(1, volume / capacity);
}

export type Bound = 'demand' | 'limit' | 'parent';

const nearly = 1e-6;

/** boundOf returns what keeps a pool's fair share from growing: its demand, its limit, or what its parent
 * can give. */
export function boundOf(pool: Pool): Bound {
  const resource = pool.dominant_resource;
  const fair = pool.fair_share[resource] ?? 0;
  if (fair >= (pool.demand_share[resource] ?? 0) - nearly) return 'demand';
  return fair >= (pool.limits_share[resource] ?? 1) - nearly ? 'limit' : 'parent';
}
