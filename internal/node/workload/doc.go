// Package workload reads pods that other people create and Weir schedules: those whose spec.schedulerName is weir. It says
// to which operation, tree and pool a pod belongs ([Place]), what it takes of a node ([Amounts]), on which nodes it may run
// ([Constraints]) beside which pods ([Neighbours]), and which of its fields Weir does not support ([Unsupported]).
//
// It is pure: what it must know beside the pod (owners, namespaces, pod groups, claims) is passed in.
package workload
