// Package image keeps container images on a node: it fetches them from registries and from files of the node, unpacks
// their layers, and deletes those that nobody needs.
//
//	directory   images/HEX.json      what the node knows about an image, by its digest
//	            layers/HEX/fs        an unpacked layer, by its diff id, as overlayfs expects it
//	            layers/HEX/layer.json  its size and the fingerprint of its files
//	            points/HEX           the uppermost layer of every root: where the init mounts things
//
// Images share layers. A layer is read-only and belongs to root; jobs mount the layers of their image over each other
// (package jobinit). It appears in the cache by one rename, when its content has been checked against both digests;
// the record of its image follows when everything is on disk. What a crash leaves half-made is deleted or fetched again. A node is only given digests: the scheduler resolves tags (Resolve).
//
// What an image contains is not trusted. Unpacking never leaves the layer's directory, makes no devices, drops extended
// attributes, owners and setuid bits, and bounds sizes and counts.
package image
