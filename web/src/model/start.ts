// An operation as the page starts it: the one that `weir run` with the same options starts.

import {readAmount, readNumber, writeAmount} from './amounts';
import {shellQuote} from './format';

/** Draft is what the reader typed. */
export interface Draft {
  command: string;
  tree: string;
  pool: string;
  title: string;
  jobs: string;
  cpu: string;
  memory: string;
  gpu: string;
}

export const emptyDraft: Draft = {command: '', tree: '', pool: '', title: '', jobs: '1', cpu: '1', memory: '512MiB', gpu: '0'};

export type Field = keyof Draft;

/** wrongFields returns the fields whose text is no value of their kind. */
export function wrongFields(draft: Draft): Field[] {
  const wrong: Field[] = [];
  const check = (field: Field, fits: (value: number) => boolean, value = readNumber(draft[field])) => {
    if (typeof value !== 'number' || !fits(value)) wrong.push(field);
  };
  check('jobs', (n) => Number.isInteger(n) && n >= 1);
  check('cpu', (n) => n >= 0);
  check('memory', (n) => n > 0, readAmount('memory', draft.memory));
  check('gpu', (n) => Number.isInteger(n) && n >= 0);
  return wrong;
}

/** specOf returns the specification of a draft without wrong fields. */
export function specOf(draft: Draft): Record<string, unknown> {
  const command = draft.command.trim();
  const gpu = Number(readNumber(draft.gpu));
  return {
    title: draft.title.trim() || shortened(command),
    max_failed_job_count: 1,
    ...(draft.pool ? {pool: draft.pool} : {}),
    ...(draft.tree ? {pool_trees: [draft.tree]} : {}),
    tasks: {
      run: {
        command, job_count: readNumber(draft.jobs), cpu_limit: readNumber(draft.cpu), memory_limit: readAmount('memory', draft.memory),
        redirect_stdout_to_stderr: true, ...(gpu > 0 ? {gpu_limit: gpu} : {}),
      },
    },
  };
}

/** commandLineOf returns the command that starts the same operation. Options with their usual values are left
 * out. */
export function commandLineOf(draft: Draft): string {
  const words = ['weir run --detach'];
  const option = (name: string, value: string, usual: string) => {
    if (value !== usual && value !== '') words.push(`${name} ${shellQuote(value)}`);
  };
  option('--tree', draft.tree, '');
  option('--pool', draft.pool, '');
  option('--title', draft.title.trim(), '');
  option('--jobs', draft.jobs.trim(), emptyDraft.jobs);
  option('--cpu', String(readNumber(draft.cpu) ?? ''), emptyDraft.cpu);
  option('--memory', writeAmount('memory', readAmount('memory', draft.memory)), emptyDraft.memory);
  option('--gpu', draft.gpu.trim(), emptyDraft.gpu);
  return `${words.join(' ')} -- ${quoted(draft.command.trim())}`;
}

/** quoted is a shell command as one word, so that its own quotes and pipes stay. */
function quoted(command: string): string {
  return `'${command.replaceAll("'", `'\\''`)}'`;
}

const longest = 60;

function shortened(command: string): string {
  const line = command.split('\n')[0]!;
  return line.length > longest ? `${line.slice(0, longest - 1)}…` : line;
}
