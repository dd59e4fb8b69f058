// Package digest counts what the statements of one node cost, by digest: statements that differ in
// their literals only are one ([Text]). It is what performance_schema and godwit.statements show.
//
// A [Table] counts every statement that has ended. That costs a look-up of the statement's text
// and some additions; a text that is not known is normalised first. It is bounded in all respects:
// digests, their texts, samples, and the texts that are remembered.
package digest
