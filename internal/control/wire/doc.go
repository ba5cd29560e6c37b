// Package wire writes and reads what clients of the dialect see: values, errors,
// formats and parameters.
//
// It converts between the values of the rooms below (documents, amounts, errors of
// the server, the core and the store) and YSON or JSON as YTsaurus writes them. It
// knows neither paths nor commands, and it decides nothing.
//
// An error is made with [Errorf] and a code. [AsError] turns any other error into
// one for clients; what it does not know gets code 1.
package wire
