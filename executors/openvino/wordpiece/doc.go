// Package wordpiece turns text into the token ids of BERT-like models: the
// WordPiece algorithm (Wu and others, 2016) with the normalisation of BERT
// (Devlin and others, 2018), as models exported from the usual libraries
// expect it.
package wordpiece
