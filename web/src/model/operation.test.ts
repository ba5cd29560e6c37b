import {describe, expect, it} from 'vitest';

import type {Counter} from '../api/types';
import {isOperationId, lastLines, openingTab} from './operation';

const jobs = (pending: number, running: number): {jobs: Counter} => ({
  jobs: {total: 9, pending, running, completed: {total: 0}, failed: 0, aborted: {total: 0}, lost: 0},
});

describe('an operation opens with', () => {
  it.each([
    ['Why, if none of its jobs runs', 'running', false, jobs(3, 0), 'why'],
    ['Why, if it waits for a place in its pool', 'pending', false, jobs(3, 0), 'why'],
    ['Why, if it is suspended', 'running', true, jobs(0, 0), 'why'],
    ['its details, if some jobs run', 'running', false, jobs(3, 1), 'details'],
    ['its details, if it has ended', 'failed', false, jobs(3, 0), 'details'],
    ['its details, if nothing is left to run', 'running', false, jobs(0, 0), 'details'],
  ])('%s', (_, state, suspended, brief_progress, tab) => expect(openingTab({state, suspended, brief_progress})).toBe(tab));
});

describe('the name of an operation', () => {
  it.each([['1-2-3-4', true], ['c7acd75e-1687f830-3ff03e8-3a8085a2', true], ['*nightly', true], ['c7acd75e-1687f830', false], ['*', false], ['nightly', false]])(
    '%s: %s', (text, is) => expect(isOperationId(text)).toBe(is));
});

describe('the end of a text', () => {
  it('is whole if it is short', () => expect(lastLines('a\nb\n', 2)).toEqual({text: 'a\nb', cut: false}));
  it('has the last lines', () => expect(lastLines('a\nb\nc\n', 2)).toEqual({text: 'b\nc', cut: true}));
});
