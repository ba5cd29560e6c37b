import {describe, expect, it} from 'vitest';

import {commandLineOf, emptyDraft, specOf, wrongFields} from './start';

const draft = {...emptyDraft, command: "echo it's | wc -l", pool: 'research', jobs: '3', cpu: '0,5', memory: '1.5 ГиБ', title: 'my words'};

describe('an operation to start', () => {
  it('has the specification that weir run makes', () =>
    expect(specOf(draft)).toEqual({
      title: 'my words', max_failed_job_count: 1, pool: 'research',
      tasks: {run: {command: "echo it's | wc -l", job_count: 3, cpu_limit: 0.5, memory_limit: 1.5 * 1024 ** 3, redirect_stdout_to_stderr: true}},
    }));

  it('is named after its command, and has GPUs and a tree only if asked', () => {
    expect(specOf({...emptyDraft, command: 'a\nb', gpu: '2', tree: 'gpu'})).toMatchObject({title: 'a', pool_trees: ['gpu'], tasks: {run: {gpu_limit: 2}}});
    expect(specOf({...emptyDraft, command: 'x'.repeat(100)})['title']).toHaveLength(60);
  });

  it('has the equivalent command line, quoted', () => {
    expect(commandLineOf(draft)).toBe(`weir run --detach --pool research --title 'my words' --jobs 3 --cpu 0.5 --memory 1.5GiB -- 'echo it'\\''s | wc -l'`);
    expect(commandLineOf({...emptyDraft, command: 'true', memory: '64 GiB'})).toBe(`weir run --detach --memory 64GiB -- 'true'`);
  });

  it.each([
    [{jobs: '0'}, ['jobs']], [{jobs: '1.5'}, ['jobs']], [{cpu: 'many'}, ['cpu']], [{memory: '0'}, ['memory']], [{memory: '1 barrel'}, ['memory']],
    [{memory: ''}, ['memory']], [{gpu: '-1'}, ['gpu']], [{}, []],
  ])('with %j has the wrong fields %j', (change, wrong) => expect(wrongFields({...emptyDraft, ...change})).toEqual(wrong));
});
