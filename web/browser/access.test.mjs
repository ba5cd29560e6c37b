// A cluster with tokens asks for one, and what its user may not do is disabled.
import assert from 'node:assert/strict';
import {after, afterEach, before, test} from 'node:test';

import {call, close, closePages, newPage, open, shows, sleeper, startOperation, until} from './harness.mjs';

before(open);
afterEach(closePages);
after(close);

test('a wrong token is refused in words, a right one opens the page', async () => {
  const page = await newPage('/scheduling');
  await page.getByLabel('Token').first().waitFor();
  await page.getByRole('textbox', {name: 'Token'}).or(page.locator('input[type=password]')).first().fill('nonsense');
  await page.getByRole('button', {name: 'Sign in'}).click();
  await shows(page, 'The token was refused');
  await page.locator('input').first().fill(process.env.WEIR_TOKEN);
  await page.getByRole('button', {name: 'Sign in'}).click();
  await page.getByRole('link', {name: 'research', exact: true}).waitFor();
  assert.equal(await page.evaluate(() => localStorage.length + document.cookie.length), 0, 'the token is nowhere but in the tab');
  await page.reload();
  await page.getByRole('link', {name: 'research', exact: true}).waitFor();
  await page.getByRole('button', {name: 'Signed in as root'}).click();
  await page.getByRole('button', {name: 'Sign out'}).click();
  await until(async () => assert.ok((await page.locator('input').count()) > 0), 'the page asks again');
  page.mistakes();
});

test('what a user may not do is disabled, with the reason', async () => {
  await call('create', {type: 'user', attributes: {name: 'bob'}});
  const token = await call('issue_token', {user: 'bob', description: 'for the page', return_only_value: true});
  const id = await startOperation(sleeper({title: 'of root'}));
  const page = await newPage('/scheduling/default/research');
  await page.locator('input[type=password]').fill(token);
  await page.getByRole('button', {name: 'Sign in'}).click();
  await page.getByRole('button', {name: 'Signed in as bob'}).waitFor();
  await page.getByRole('button', {name: 'Delete', exact: true, disabled: true}).waitFor();
  assert.match(
    await page.getByRole('button', {name: 'Delete', exact: true}).getAttribute('aria-description'),
    /bob may not do this: it needs the permission “remove” on \/\/sys\/pool_trees\/default\/research/,
  );
  assert.equal(await page.getByRole('button', {name: 'Start an operation', disabled: true}).count(), 0, 'every user may use the pool');
  await page.getByRole('tab', {name: 'Changes'}).click();
  await shows(page, 'Only administrators see who changed what');
  await page.goto(new URL(`/operations/${id}`, page.url()).href);
  await page.getByRole('button', {name: 'Abort', exact: true, disabled: true}).waitFor();
  page.mistakes();
});
