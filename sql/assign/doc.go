// Package assign converts values to what columns, and variables of programs, hold. What does not
// fit is an error in strict mode, and else the nearest value with a warning, with MySQL's numbers
// and words.
package assign
