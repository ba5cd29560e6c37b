import '@gravity-ui/uikit/styles/styles.css';
import 'uplot/dist/uPlot.min.css';
import './style/app.css';
import './style/table.css';
import './style/pages.css';

import {QueryClientProvider} from '@tanstack/react-query';
import {StrictMode} from 'react';
import {createRoot} from 'react-dom/client';

import {signInByAddress} from './api/client';
import {queryClient} from './api/queries';
import {App} from './shell/app';

// After an upgrade of the server the files of the older page no longer exist: load the new page.
window.addEventListener('vite:preloadError', () => window.location.reload());

void signInByAddress().then(() =>
  createRoot(document.getElementById('root')!).render(
    <StrictMode>
      <QueryClientProvider client={queryClient}>
        <App />
      </QueryClientProvider>
    </StrictMode>,
  ),
);
