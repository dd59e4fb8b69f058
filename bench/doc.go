// Package bench regenerates the figures and tables of the papers, side by side
// with their baselines. A benchmark is one file that calls [Register]; it emits
// one [Line] for each point of a figure. `godwit bench` lists and runs them.
//
// # Duties of a benchmark
//
//   - The baseline is measured in the same run on the same machine, as a switch
//     of the same system or as a real peer; only [Line.Paper] is a constant.
//   - With [Params.Quick] it ends within a minute on two cores.
//   - It stops soon after its context is cancelled and leaves nothing behind
//     outside [Params.Dir].
package bench
