// Every page, what it shows once it has loaded, and what to do on it first.
async function simulate(page) {
  await page.getByRole('button', {name: 'Run', exact: true}).click();
  await page.locator('.tiles').waitFor();
}

async function compare(page) {
  await page.getByRole('button', {name: 'Compare', exact: true}).click();
  await page.locator('.tiles').waitFor();
}

async function startDialog(page) {
  await page.getByRole('button', {name: 'Start an operation'}).click();
  await page.getByRole('dialog').getByLabel('Command').fill('echo hello');
  await page.locator('.command').waitFor();
}

export const places = (operation, node) => [
  {name: 'cluster', path: '/', ready: 'table.plain'},
  {name: 'scheduling', path: '/scheduling', ready: '.grid__body .grid__row'},
  {name: 'scheduling-cpu', path: '/scheduling?mode=cpu&numbers=absolute', ready: '.grid__body .grid__row'},
  {name: 'scheduling-integral', path: '/scheduling?mode=integral&operations=no', ready: '.grid__body .grid__row'},
  {name: 'scheduling-operations', path: '/scheduling?mode=operations&operations=no', ready: '.grid__body .grid__row'},
  {name: 'pool', path: '/scheduling/default/production', ready: 'table.plain'},
  {name: 'pool-charts', path: '/scheduling/default/production?tab=charts', ready: '.chart canvas'},
  {name: 'pool-attributes', path: '/scheduling/default/production?tab=attributes', ready: '.raw textarea'},
  {name: 'pool-promises', path: '/scheduling/default/production?tab=promises', ready: '.calendar'},
  {name: 'pool-acl', path: '/scheduling/default/production?tab=acl', ready: '.tabbody .plain'},
  {name: 'pool-changes', path: '/scheduling/default/research?tab=changes', ready: '.tabbody .empty, .tabbody .plain'},
  {name: 'pool-missing', path: '/scheduling/default/resaerch', ready: '.missing'},
  {name: 'operations', path: '/operations', ready: '.grid__body .grid__row'},
  {name: 'operation-start', path: '/operations', ready: '.grid__body .grid__row', prepare: startDialog},
  {name: 'operation', path: `/operations/${operation}`, ready: 'table.plain'},
  {name: 'operation-specification', path: `/operations/${operation}?tab=spec`, ready: '.code'},
  {name: 'operation-jobs', path: `/operations/${operation}?tab=jobs`, ready: '.grid'},
  {name: 'operation-files', path: `/operations/${operation}?tab=files`, ready: '.tabbody .empty, .tabbody .section'},
  {name: 'operation-statistics', path: `/operations/${operation}?tab=statistics`, ready: '.tabbody .section'},
  {name: 'operation-memory', path: `/operations/${operation}?tab=memory`, ready: '.histogram, .tabbody .empty'},
  {name: 'operation-cpu', path: `/operations/${operation}?tab=cpu`, ready: '.chart canvas, .tabbody .empty'},
  {name: 'operation-why', path: `/operations/${operation}?tab=why`, ready: '.tabbody .section, .tabbody .empty'},
  {name: 'operation-timeline', path: `/operations/${operation}?tab=timeline`, ready: '.timeline, .empty'},
  {name: 'operation-events', path: `/operations/${operation}?tab=events`, ready: '.grid'},
  {name: 'nodes', path: '/nodes', ready: '.grid__body .grid__row'},
  {name: 'nodes-map', path: '/nodes?view=map', ready: '.packing__node'},
  {name: 'node', path: `/nodes/${node}`, ready: 'table.plain'},
  {name: 'preemptions', path: '/preemptions', ready: '.empty, .grid'},
  {name: 'reports', path: '/reports', ready: '.strip'},
  {name: 'reports-usage', path: '/reports?report=usage', ready: '.grid__body .grid__row'},
  {name: 'reports-savings', path: '/reports?report=savings', ready: '.grid__body .grid__row'},
  {name: 'reports-preemptions', path: '/reports?report=preemptions', ready: '.grid'},
  {name: 'reports-forecasts', path: '/reports?report=forecasts', ready: '.tabbody .section, .tabbody .empty'},
  {name: 'what-if', path: '/what-if', ready: '.raw textarea', prepare: compare},
  {name: 'simulator', path: '/simulator?example=starvation', ready: '.scenario', prepare: simulate},
  {name: 'events', path: '/events', ready: '.grid__body .grid__row'},
];
