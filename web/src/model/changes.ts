// What an audit record says about pools: lines such as "~ pool research: weight: 1 → 3".

import type {AuditRecord} from '../api/types';

export interface Change {
  /** sign is + for what was added, - removed, ~ changed, > moved, # reordered; empty for anything else. */
  sign: string;
  /** pool is the pool that changed; undefined for the tree itself and for what is no line about a pool. */
  pool?: string;
  /** what is the text without the values. */
  what: string;
  before?: string;
  after?: string;
}

const line = /^([-+~>#]) (.*)$/;
const option = /^((?:pool [^\s:]+|tree): [^\s:]+): (.*) → (.*)$/;
const move = /^(pool [^\s:]+): (.*) → (.*)$/;
const pool = /^pools? (?:in )?([^\s:]+)/;

/** changeOf reads one line. */
export function changeOf(text: string): Change {
  const [, sign, rest] = line.exec(text) ?? [];
  if (sign === undefined || rest === undefined) return {sign: '', what: text};
  const change: Change = {sign, pool: pool.exec(rest)?.[1], what: rest};
  const [, what, before, after] = (sign === '>' ? move : option).exec(rest) ?? [];
  return what === undefined ? change : {...change, what, before, after};
}

/** changesOf returns what a record says: its lines, or one change from a value to another. */
export function changesOf(record: Pick<AuditRecord, 'before' | 'after' | 'command' | 'object'>): Change[] {
  const {before, after} = record;
  const lines = [before, after].flatMap((value) => (typeof value === 'string' && /^[-+~>#] /.test(value) ? value.trim().split('\n') : []));
  if (lines.length > 0) return lines.map(changeOf);
  const [old, next] = [textOf(before), textOf(after)];
  if (old === '' && next === '') return [{sign: '', what: `${record.command} ${record.object}`}];
  return [{sign: '~', what: record.object, before: old || '–', after: next || '–'}];
}

/** textOf formats a value of an audit record: a text or a document. */
export function textOf(value: unknown): string {
  if (value === null || value === undefined) return '';
  return typeof value === 'string' ? value.trim() : JSON.stringify(value);
}

export interface PoolChange {
  record: AuditRecord;
  /** own is what the record says about the pool, others what it says about other pools and the tree. */
  own: Change[];
  others: Change[];
}

/** changesOfPool selects from the records of a tree those that concern one pool: its own, and those of commands
 * that change many pools, such as apply. */
export function changesOfPool(records: AuditRecord[], path: string, name: string): PoolChange[] {
  return records.flatMap((record) => {
    const changes = changesOf(record);
    const isOwn = (change: Change) => (change.pool === undefined ? record.object === path && change.sign !== '' : change.pool === name);
    const own = changes.filter(isOwn);
    if (own.length > 0) return [{record, own, others: changes.filter((change) => !isOwn(change))}];
    return record.object === path ? [{record, own: changes, others: []}] : [];
  });
}
