// Package picture is what a scheduler knows about a Kubernetes cluster, and what it concludes: nodes, pods, and the pods
// that it has asked for and not seen yet. Events go in, orders come out; there is no clock, goroutine or connection here.
//
// Every Kubernetes node is a virtual node: a [nodeproto.NodeSession] in the scheduler's process, whose disk is the API
// server. A start order becomes one pod, which is created with its node's name, so a pod exists exactly if it is placed.
// The pod's name is the job's number, which is never used again, and its annotation holds the job's identity, by which a
// later leader adopts it. A finalizer keeps the object until the job's result is durable, even if its node is gone.
//
// The owner serialises calls. It passes in what watches show ([Picture.NodeSeen], [Picture.PodSeen] and their opposites),
// the scheduler's answers ([Picture.Registered], [Picture.Reported]), the outcomes of writes ([Picture.Written]) and the
// time ([Picture.Tick]), and after each of them carries out what [Picture.Take] returns.
//
// # Exactly once
//
// A create is repeated until its outcome is known: a pod of this name with this job's identity is success, no matter who made
// it. A deletion names the pod's UID. A pod with the annotation of a job that this picture does not have is deleted: a
// leader that was replaced may have asked for it late. Nothing is concluded from a lack of news: while the API server is
// away ([Picture.SetBlind]), jobs run on, and nothing starts or is given up.
package picture
