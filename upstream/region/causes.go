package region

// The causes of moves. A region's Move from 0 is a registration: it says from
// where, and why a new one was needed.
const (
	causeFirst      = "registered for the first time, from the start-ts"
	causeStreamGone = "registered again after the stream broke, from what its keys had reached"
	causeRenewed    = "registered again because the region lagged, from what its keys had reached"
	causeTurn       = "registered again after the turn of a part, from what its keys had reached"
	causeResolved   = "resolved-ts from TiKV"
	causeSlowest    = "the slowest region moved"
)

// causes are those of registrations after each kind of failure.
var causes = [FailureKinds]string{
	Unexplained:       "registered again after an error without a name, from what its keys had reached",
	NotLeader:         "registered again after not_leader, from what its keys had reached",
	NotFound:          "registered again after region_not_found, from what its keys had reached",
	EpochNotMatch:     "registered again after epoch_not_match, from what its keys had reached",
	DuplicateRequest:  "registered again after duplicate_request, from what its keys had reached",
	Compatibility:     "registered again after compatibility, from what its keys had reached",
	ClusterIDMismatch: "registered again after cluster_id_mismatch, from what its keys had reached",
	ServerIsBusy:      "registered again after server_is_busy, from what its keys had reached",
	Congested:         "registered again after congested, from what its keys had reached",
	Unanswered:        "registered again after a long silence, from what its keys had reached",
}
