// A cluster with tokens asks for one.
import assert from 'node:assert/strict';
import {after, afterEach, before, test} from 'node:test';

import {close, closePages, newPage, open, shows, until} from './harness.mjs';

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
  await page.getByRole('button', {name: 'Sign out'}).click();
  await until(async () => assert.ok((await page.locator('input').count()) > 0), 'the page asks again');
  page.mistakes();
});
