import type {MouseEvent, ReactNode} from 'react';

import {navigate} from '../shell/routing';

interface AnchorProps {
  href: string;
  children: ReactNode;
  className?: string;
  title?: string;
  current?: boolean;
}

/** Anchor is a link inside the page: it navigates without loading anything. */
export function Anchor({href, children, className = 'link', title, current}: AnchorProps) {
  const follow = (event: MouseEvent) => {
    if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    navigate(href);
  };
  return (
    <a href={href} onClick={follow} className={className} title={title} aria-current={current ? 'page' : undefined}>
      {children}
    </a>
  );
}
