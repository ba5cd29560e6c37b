// Package pretender plays kubelets: its nodes look like machines of a Kubernetes cluster, and their pods run and end without
// a process. People try Weir with it (weir up --kubernetes --kwok N), and tests use its parts.
//
// [Next] is pure: it returns what a kubelet would do with a pod. [Pretender] does it.
package pretender
