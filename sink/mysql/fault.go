package mysql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"slices"

	gomysql "github.com/go-sql-driver/mysql"

	"github.com/sluice-cdc/sluice/cdcerr"
)

// Error numbers of MySQL, TiDB and MariaDB that this package tells apart.
const (
	errDBExists         = 1007
	errDBNotExists      = 1008
	errTooManyConns     = 1040
	errDBAccessDenied   = 1044
	errAccessDenied     = 1045
	errNull             = 1048
	errUnknownDB        = 1049
	errTableExists      = 1050
	errUnknownTable     = 1051
	errServerShutdown   = 1053
	errUnknownColumn    = 1054
	errDuplicateColumn  = 1060
	errDuplicateKeyName = 1061
	errDuplicateKey     = 1062
	errMultiplePrimary  = 1068
	errCantDrop         = 1091
	errColumnCount      = 1136
	errTableDenied      = 1142
	errColumnDenied     = 1143
	errNoSuchTable      = 1146
	errPacketTooLarge   = 1153
	errKeyNotExists     = 1176
	errUnknownVariable  = 1193
	errLockWait         = 1205
	errDeadlock         = 1213
	errSpecificDenied   = 1227
	errReadOnly         = 1290
	errOutOfRange       = 1264
	errTruncated        = 1265
	errWrongObject      = 1347 // a view stands in a table's place
	errWrongValue       = 1292
	errUnknownZone      = 1298
	errQueryInterrupted = 1317
	errNoDefault        = 1364
	errBadValue         = 1366
	errIllegalValue     = 1367
	errDataTooLong      = 1406
	errDropPartition    = 1507
	errValueRange       = 1690 // of what an expression gives
	errSamePartition    = 1517
	errNoPartition      = 1526
	errNotInsertable    = 1471
	errWrongValueFor    = 1525
	errReadOnlyTxn      = 1792
	errMustChangePass   = 1820
	errDuplicateCheck   = 1826 // and foreign key names
	errDuplicateIndex   = 1831
	errReadOnlyMode     = 1836
	errPassExpired      = 1862
	errGeneratedM       = 1906 // MariaDB's number for a value given to a generated column
	errConnectionKilled = 1927
	errRecordChanged    = 1020
	errStatementTime    = 1969 // MariaDB's max_statement_time
	errExecutionTime    = 3024 // MySQL's max_execution_time
	errGenerated        = 3105
	errInvalidJSON      = 3140
	errIdle             = 4031
	errPassExpiredTiDB  = 8244
	errAccountLocked    = 3118
	errAccountLockedM   = 4151 // MariaDB's number for the same
)

// A fault is what an error from the downstream says about its future.
type fault uint8

// The faults.
const (
	refused    fault = iota // it will be refused again
	gone                    // the connection is useless, and whether the last statement ran is not known
	contention              // somebody else held a lock: the same again may pass
	denied                  // the server knows this user, and does not let it
	misshapen               // the table is not what upstream's is
	oversized               // the statement is larger than the server takes
)

// serverError is the error that the server itself sent, nil for all others.
func serverError(err error) *gomysql.MySQLError {
	var e *gomysql.MySQLError
	if errors.As(err, &e) {
		return e
	}
	return nil
}

// isReadOnly tells whether the server takes no writes, of nobody.
func isReadOnly(err error) bool {
	e := serverError(err)
	return e != nil && (e.Number == errReadOnly || e.Number == errReadOnlyMode || e.Number == errReadOnlyTxn)
}

func isServerError(err error) bool { return serverError(err) != nil }

// faultOf tells the faults apart, by number and never by text.
func faultOf(err error) fault {
	if e := serverError(err); e != nil {
		return faultOfNumber(e.Number)
	}
	var netErr net.Error
	var cut misfit
	switch {
	case errors.Is(err, driver.ErrBadConn), errors.Is(err, sql.ErrConnDone), errors.Is(err, gomysql.ErrInvalidConn),
		errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.As(err, &netErr),
		errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled), cdcerr.MySQLConnection.Is(err):
		return gone
	case errors.As(err, &cut):
		return misshapen
	case errors.Is(err, gomysql.ErrPktTooLarge):
		return oversized
	}
	return refused
}

// Between these are the numbers of clients' own errors, no server's: a proxy says so
// that it has lost the server.
const firstOfClients, endOfClients = 2000, 3000

func faultOfNumber(number uint16) fault {
	if number >= firstOfClients && number < endOfClients {
		return gone
	}
	switch number {
	case errServerShutdown, errQueryInterrupted, errConnectionKilled, errIdle, errTooManyConns:
		return gone
	case errReadOnly, errReadOnlyMode, errReadOnlyTxn:
		// It has handed over to another server: a new connection may lead there.
		return gone
	case errLockWait, errDeadlock, errRecordChanged, errStatementTime, errExecutionTime,
		// TiDB: write conflicts, schema changes under a transaction, and stores
		// and PD that do not answer.
		8002, 8005, 8022, 8027, 8028, 9001, 9002, 9003, 9004, 9005, 9007, 9010, 9011, 9012, 9013:
		return contention
	case errDBAccessDenied, errAccessDenied, errTableDenied, errColumnDenied, errSpecificDenied,
		errMustChangePass, errPassExpired, errPassExpiredTiDB, errAccountLocked, errAccountLockedM:
		return denied
	case errUnknownDB, errNoSuchTable, errUnknownColumn, errColumnCount, errNoDefault, errNoPartition, errWrongObject, errNotInsertable, errGenerated, errGeneratedM,
		// Values that do not fit: sessions that write rows are strict.
		errNull, errOutOfRange, errTruncated, errWrongValue, errBadValue, errIllegalValue, errDataTooLong, errWrongValueFor, errInvalidJSON:
		return misshapen
	case errPacketTooLarge:
		return oversized
	}
	return refused
}

// isGone tells whether an error leaves the connection useless, so that what ran
// on it may or may not have happened.
func isGone(err error) bool { return err != nil && faultOf(err) == gone }

func isContention(err error) bool { return err != nil && faultOf(err) == contention }

// unprivileged tells whether a user that was let in may not do what it was about to.
func unprivileged(err error) bool {
	e := serverError(err)
	return e != nil && slices.Contains([]uint16{errDBAccessDenied, errTableDenied, errColumnDenied, errSpecificDenied}, e.Number)
}

// coded gives an error about rows the code of its fault.
func coded(err error, format string, args ...any) error {
	code := cdcerr.MySQLTxn
	if e := serverError(err); e != nil && e.Number == errDuplicateKey {
		code = cdcerr.MySQLDuplicateEntry
	}
	switch faultOf(err) {
	case gone:
		code = cdcerr.MySQLConnection
		if isReadOnly(err) {
			code = cdcerr.MySQLReadOnly
		}
	case denied:
		code = cdcerr.MySQLAccessDenied
	case misshapen:
		code = cdcerr.MySQLTableDiffers
	case oversized:
		code = cdcerr.MySQLPacket
	}
	return code.Wrap(err, format, args...)
}
