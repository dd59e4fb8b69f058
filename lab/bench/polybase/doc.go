// Package polybase regenerates the figures of PolyBase (sections 6.2 to 6.5): rows that come home
// to the region that uses them, beside fixed homes, homes that follow every access, and DynaMast's
// central site selector.
//
// All systems are switches of one ([policy], [fixed], [always], [dynamas]). They work side by side
// in real time on clusters of three regions, under the same clients. Where a region is far from the
// next one is the matrix of AWS; the paper's own map is an image, and ours fits what its text says.
package polybase
