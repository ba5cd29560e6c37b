// Package blob keeps contents that are too large for the rows of the store: files of the tree, files that users send along with
// an operation, what jobs leave behind.
//
// A content is named by its SHA-256, so equal contents are kept once. It is in a bucket of gocloud.dev/blob: a directory, or a
// bucket that speaks the protocol of S3. The package does not know who uses a content; rows of the store do. What they do not
// name, [Store.Collect] deletes after a grace period.
//
// # Writing
//
// A content first arrives in a local file, an [Upload]: in one stream, or in pieces that continue after a restart.
// [Upload.Finish] compares it with the sum that the sender states, makes it durable and puts it into the bucket whole. It returns
// a [Content], which Collect spares until it is released: release it after the rows that name it are on disk. An upload that is
// not finished leaves nothing in the bucket.
package blob
