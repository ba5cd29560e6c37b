import {configure, ThemeProvider, Toaster, ToasterComponent, ToasterProvider} from '@gravity-ui/uikit';
import {useEffect, useMemo} from 'react';

import {signedOut} from '../api/client';
import {useSignal} from '../api/queries';
import {Problem} from '../parts/states';
import {HomePage} from '../pages/home';
import {EventsPage} from '../pages/events';
import {NodePage} from '../pages/node';
import {NodesPage} from '../pages/nodes';
import {OperationPage} from '../pages/operation';
import {OperationsPage} from '../pages/operations';
import {PoolPage} from '../pages/pool';
import {PreemptionsPage} from '../pages/preemptions';
import {SchedulingPage} from '../pages/scheduling';
import {TextsContext, textsIn, useTexts} from '../text/i18n';
import {ErrorBoundary} from './boundary';
import {Frame} from './frame';
import {usePath} from './routing';
import {locale, theme} from './settings';
import {SignIn} from './signin';

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
  const {t} = useTexts();
  const place = path.join('/');
  useEffect(() => {
    document.title = path.length > 0 ? `${path[path.length - 1]} · Weir` : 'Weir';
    document.querySelector('main')?.scrollTo(0, 0);
  }, [place]);
  return <ErrorBoundary key={place}>{page(path) ?? <Problem title={t('There is no such page')} />}</ErrorBoundary>;
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
    case 'preemptions':
      return <PreemptionsPage />;
    case 'events':
      return <EventsPage />;
  }
  return null;
}
