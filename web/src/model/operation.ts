import type {OperationRow} from '../api/types';

const final = new Set(['completed', 'failed', 'aborted']);

export function hasEnded(state: string): boolean {
  return final.has(state);
}

/** isOperationId reports whether a text can name an operation: a whole id, or an alias. */
export function isOperationId(text: string): boolean {
  return /^(\*.+|[0-9a-f]+(-[0-9a-f]+){3})$/i.test(text);
}

/** waits reports whether an operation waits as a whole: it has no running job, but wants some. */
export function waits(operation: Pick<OperationRow, 'state' | 'suspended' | 'brief_progress'>): boolean {
  if (hasEnded(operation.state)) return false;
  const jobs = operation.brief_progress?.jobs;
  if (jobs && jobs.running > 0) return false;
  return operation.suspended || operation.state !== 'running' || (jobs?.pending ?? 0) > 0;
}

/** openingTab returns the tab that answers what a reader of an operation asks first. */
export function openingTab(operation: Pick<OperationRow, 'state' | 'suspended' | 'brief_progress'>): string {
  return waits(operation) ? 'why' : 'details';
}

/** lastLines returns the end of a text, and whether something is missing before it. */
export function lastLines(text: string, most: number): {text: string; cut: boolean} {
  const lines = text.replace(/\n+$/, '').split('\n');
  return {text: lines.slice(-most).join('\n'), cut: lines.length > most};
}
