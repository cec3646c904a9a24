package schema

// The states of a job that matter to a reader.
const (
	StateNone         = 0
	StateRunning      = 1
	StateRollingBack  = 2
	StateRollbackDone = 3
	StateDone         = 4
	StateCancelled    = 5
	StateSynced       = 6
	StateCancelling   = 7
	StateQueueing     = 8
	StatePaused       = 9
	StatePausing      = 10
)

// The states of a schema object on its way into, or out of, public sight.
const (
	SchemaNone        = 0
	SchemaDeleteOnly  = 1
	SchemaWriteOnly   = 2
	SchemaDeleteReorg = 4
	SchemaPublic      = 5
)
