// Package polybase regenerates the figures of PolyBase (sections 6.2 to 6.5): rows that come home
// to the region that uses them, beside fixed homes, homes that follow every access, and DynaMast's
// central site selector.
//
// All systems are the same program with other switches ([policy], [fixed], [always], [dynamas]).
// They work side by side in real time on clusters of three regions, under the same clients. The
// distances are those of AWS regions that fit the paper's text; its map is an image without
// numbers.
package polybase
