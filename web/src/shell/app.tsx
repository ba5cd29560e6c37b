import {configure, ThemeProvider, Toaster, ToasterComponent, ToasterProvider} from '@gravity-ui/uikit';
import {lazy, Suspense, useEffect, useMemo} from 'react';

import {signedOut} from '../api/client';
import {useSignal} from '../api/queries';
import {Waiting} from '../parts/states';
import {TextsContext, textsIn} from '../text/i18n';
import {ErrorBoundary} from './boundary';
import {Frame} from './frame';
import {usePath} from './routing';
import {locale, theme} from './settings';
import {SignIn} from './signin';

// Each page is loaded when it is first opened.
const HomePage = lazy(async () => ({default: (await import('../pages/home')).HomePage}));
const EventsPage = lazy(async () => ({default: (await import('../pages/events')).EventsPage}));
const MissingPage = lazy(async () => ({default: (await import('../pages/missing')).MissingPage}));
const NodePage = lazy(async () => ({default: (await import('../pages/node')).NodePage}));
const PodsPage = lazy(async () => ({default: (await import('../pages/pods')).PodsPage}));
const PodPage = lazy(async () => ({default: (await import('../pages/pod')).PodPage}));
const NodesPage = lazy(async () => ({default: (await import('../pages/nodes')).NodesPage}));
const OperationPage = lazy(async () => ({default: (await import('../pages/operation')).OperationPage}));
const OperationsPage = lazy(async () => ({default: (await import('../pages/operations')).OperationsPage}));
const PoolPage = lazy(async () => ({default: (await import('../pages/pool')).PoolPage}));
const PreemptionsPage = lazy(async () => ({default: (await import('../pages/preemptions')).PreemptionsPage}));
const ReportsPage = lazy(async () => ({default: (await import('../pages/reports')).ReportsPage}));
const SchedulingPage = lazy(async () => ({default: (await import('../pages/scheduling')).SchedulingPage}));
const WhatIfPage = lazy(async () => ({default: (await import('../pages/what_if')).WhatIfPage}));
const SimulatorPage = lazy(async () => ({default: (await import('../pages/simulator')).SimulatorPage}));

const toaster = new Toaster();

export function App() {
  const language = useSignal(locale);
  const texts = useMemo(() => {
    configure({lang: language});
    return textsIn(language);
  }, [language]);
  const needsToken = useSignal(signedOut);
  return (
    <ThemeProvider theme={useSignal(theme)}>
      <ToasterProvider toaster={toaster}>
        <TextsContext.Provider value={texts}>
          {needsToken ? (
            <SignIn />
          ) : (
            <Frame>
              <Route />
            </Frame>
          )}
        </TextsContext.Provider>
        <ToasterComponent />
      </ToasterProvider>
    </ThemeProvider>
  );
}

function Route() {
  const path = usePath();
  const place = path.join('/');
  useEffect(() => {
    document.title = path.length > 0 ? `${path[path.length - 1]} · Weir` : 'Weir';
    document.querySelector('main')?.scrollTo(0, 0);
  }, [place]);
  return (
    <ErrorBoundary key={place}>
      <Suspense fallback={<Waiting />}>{page(path) ?? <MissingPage />}</Suspense>
    </ErrorBoundary>
  );
}

function page(path: string[]) {
  const [section, first, second] = path;
  switch (section) {
    case undefined:
      return <HomePage />;
    case 'scheduling':
      if (first === undefined) return <SchedulingPage />;
      if (second !== undefined) return <PoolPage tree={first} name={second} />;
      return null;
    case 'operations':
      return first === undefined ? <OperationsPage /> : <OperationPage id={first} />;
    case 'nodes':
      return first === undefined ? <NodesPage /> : <NodePage address={first} />;
    case 'pods':
      return first === undefined || second === undefined ? <PodsPage /> : <PodPage namespace={first} name={second} />;
    case 'preemptions':
      return <PreemptionsPage />;
    case 'reports':
      return <ReportsPage />;
    case 'events':
      return <EventsPage />;
    case 'what-if':
      return <WhatIfPage />;
    case 'simulator':
      return <SimulatorPage />;
  }
  return null;
}
