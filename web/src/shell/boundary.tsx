import {Component, type ReactNode} from 'react';

import {Problem} from '../parts/states';

/** ErrorBoundary keeps an error on one page from breaking the others. */
export class ErrorBoundary extends Component<{children: ReactNode}, {error?: Error}> {
  override state: {error?: Error} = {};
  static getDerivedStateFromError(error: Error) {
    return {error};
  }
  override render() {
    if (this.state.error) return <Problem title="The page has a mistake" error={this.state.error} />;
    return this.props.children;
  }
}
