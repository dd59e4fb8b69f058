// Package jsontable reads JSON_TABLE(doc, path COLUMNS (...)) and makes rows of documents. The
// parsers of statements do not know this syntax: [Cut] takes it out of a text before they see it.
package jsontable
