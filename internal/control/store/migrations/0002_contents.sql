-- Contents of files that are in the blob storage, and who uses them.

ALTER TABLE path_nodes ADD COLUMN content TEXT NOT NULL DEFAULT ''; -- SHA-256; empty if the document is the content
ALTER TABLE path_nodes ADD COLUMN content_size BIGINT NOT NULL DEFAULT 0;
ALTER TABLE path_nodes ADD COLUMN content_user TEXT NOT NULL DEFAULT '';

CREATE TABLE content_uses (
    content   TEXT NOT NULL,
    holder    TEXT NOT NULL,
    user_name TEXT NOT NULL,
    size      BIGINT NOT NULL,
    operation BIGINT NOT NULL, -- 0 if the holder is no part of an operation
    job       BIGINT NOT NULL,
    expires   BIGINT NOT NULL,
    document  BYTEA NOT NULL,
    PRIMARY KEY (content, holder)
);
CREATE INDEX content_uses_user ON content_uses (user_name, content);
CREATE INDEX content_uses_operation ON content_uses (operation, job) WHERE operation <> 0;
CREATE INDEX content_uses_expires ON content_uses (expires) WHERE expires <> 0;
