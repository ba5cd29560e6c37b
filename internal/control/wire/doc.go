// Package wire encodes and decodes what clients of the dialect see: values,
// errors, formats and parameters.
//
// It converts between the values of the rooms below (documents, amounts, errors of
// the server, the core and the store) and YSON or JSON as YTsaurus writes them. It
// knows neither paths nor commands, and it decides nothing.
//
// Make an error with [Errorf] and a code. [AsError] turns any other error into one
// for clients; an unknown error gets code 1.
package wire
