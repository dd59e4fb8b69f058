// Package moments has what a node counts of the traffic between regions ([Share]), puts together
// what all nodes have, and keeps the cluster as it was at moments of the last hour ([Ring]).
//
// Every node keeps moments of the whole cluster, so that any of them knows the hour, whichever
// others have died. The caller says where what is kept comes from ([Source]).
package moments
