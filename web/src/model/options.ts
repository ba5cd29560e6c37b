// The options of a pool in the editor: a document that is changed key by key. The page validates nothing; the
// server does, and reports what is wrong.

export type Document = Record<string, unknown>;

/** at returns the value at a path of keys. */
export function at(document: Document | undefined, path: string[]): unknown {
  return path.reduce<unknown>((value, key) => (isDocument(value) ? value[key] : undefined), document);
}

export function isDocument(value: unknown): value is Document {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** withValue returns the document with a value at a path; undefined removes it, and the maps that become
 * empty. */
export function withValue(document: Document, path: string[], value: unknown): Document {
  const [key, ...rest] = path;
  if (key === undefined) return document;
  const next = {...document};
  const inner = rest.length === 0 ? value : withValue(isDocument(next[key]) ? next[key] : {}, rest, value);
  if (inner === undefined || (rest.length > 0 && isDocument(inner) && Object.keys(inner).length === 0)) delete next[key];
  else next[key] = inner;
  return next;
}

export interface Difference {
  set: Document;
  removed: string[];
}

/** difference returns what to set and what to remove to turn one document into the other. */
export function difference(before: Document, after: Document): Difference {
  const set: Document = {};
  const removed: string[] = [];
  for (const key of Object.keys(before).sort()) if (!(key in after)) removed.push(key);
  for (const key of Object.keys(after).sort()) {
    if (JSON.stringify(before[key]) !== JSON.stringify(after[key])) set[key] = after[key];
  }
  return {set, removed};
}

/** poolIn finds the document of a pool in that of a tree; way lists the pools down to it. */
export function poolIn(tree: Document, way: string[]): Document {
  let place: unknown = tree;
  for (const name of way) place = at(place as Document, ['pools', name]);
  return isDocument(place) ? place : {};
}

/** optionsOf returns the options of a pool without its subpools. */
export function optionsOf(pool: Document): Document {
  const {pools: _, ...own} = pool;
  return own;
}

/** withPool returns the document of a tree with other options for one pool. */
export function withPool(tree: Document, way: string[], options: Document): Document {
  const [name, ...rest] = way;
  if (name === undefined) return tree.pools === undefined ? options : {...options, pools: tree.pools};
  const pools = isDocument(tree.pools) ? tree.pools : {};
  const inner = isDocument(pools[name]) ? pools[name] : {};
  return {...tree, pools: {...pools, [name]: withPool(inner, rest, options)}};
}

/** withoutPool returns the document of a tree without one pool and its subpools. */
export function withoutPool(tree: Document, way: string[]): Document {
  const [name, ...rest] = way;
  if (name === undefined || !isDocument(tree.pools)) return tree;
  if (rest.length > 0) {
    const inner = tree.pools[name];
    return isDocument(inner) ? {...tree, pools: {...tree.pools, [name]: withoutPool(inner, rest)}} : tree;
  }
  const {[name]: _, ...others} = tree.pools;
  return {...tree, pools: others};
}

/** withNewPool returns the document of a tree with one more pool. */
export function withNewPool(tree: Document, above: string[], name: string, pool: Document): Document {
  const [first, ...rest] = above;
  const pools = isDocument(tree.pools) ? tree.pools : {};
  if (first === undefined) return {...tree, pools: {...pools, [name]: pool}};
  const inner = isDocument(pools[first]) ? pools[first] : {};
  return {...tree, pools: {...pools, [first]: withNewPool(inner, rest, name, pool)}};
}
