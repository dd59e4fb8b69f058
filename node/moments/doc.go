// Package moments is what a node has counted of the traffic between regions, and puts together what
// all nodes have.
package moments
