// Package kube drives a Kubernetes cluster for the leading scheduler: it watches nodes and pods, keeps one virtual node for
// each node ([picture.Picture]), and carries out what the scheduler orders as calls of the API server.
//
// It decides nothing: the picture does, in one goroutine that owns it. Watches, answers of the scheduler and outcomes of
// writes are events in its queue. Watches also run while this scheduler stands by, so that a new leader knows the cluster at
// once.
//
// No write leaves when less than a second of the lease is left, and every write ends before the lease does: a leader that was
// paused does nothing when it wakes.
package kube
