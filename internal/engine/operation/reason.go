package operation

// AbortReason is why a job was aborted. The names are YTsaurus's.
type AbortReason uint8

const (
	NotAborted AbortReason = iota
	AbortPreemption
	AbortResourceOverdraft
	AbortUserRequest
	AbortNodeOffline
	AbortNodeBanned
	AbortNodePoolTreeChanged
	AbortNodeWithDisabledJobs
	AbortNodeResourceOvercommit
	AbortWaitingTimeout
	AbortInterruptionTimeout
	AbortInterruptionUnsupported
	AbortDisappearedFromNode
	AbortUnexpectedNode
	AbortUnconfirmed
	AbortRevivalDisabled
	AbortGetSpecFailed
	AbortJobProxyFailed
	AbortOperationSuspended
	AbortOperationCompleted
	AbortOperationFailed
	AbortOperationAborted
	AbortOperationFinished
	AbortIncarnationChanged
	AbortNonexistentPoolTree
	AbortRootVolumePreparationFailed // the node could not get the job's image
	AbortGPUCheckFailed
	AbortDiskOverdraft // the node's disk is full, and the job takes more than it asked for
	AbortOther

	// The job did not start: its allocation was cancelled while it was being
	// made.
	AbortSchedulingTimeout
	AbortSchedulingResourceOvercommit
	AbortSchedulingOperationSuspended
	AbortSchedulingOperationDisabled
	AbortSchedulingOther

	// AbortReasonCount is the number of reasons.
	AbortReasonCount
)

var abortReasonNames = [AbortReasonCount]string{
	"none", "preemption", "resource_overdraft", "user_request", "node_offline", "node_banned", "node_pool_tree_changed",
	"node_with_disabled_jobs", "node_resource_overcommit", "waiting_timeout", "interruption_timeout", "interruption_unsupported",
	"disappeared_from_node", "job_on_unexpected_node", "unconfirmed", "job_revival_disabled", "get_spec_failed", "job_proxy_failed",
	"operation_suspended", "operation_completed", "operation_failed", "operation_aborted", "operation_finished",
	"operation_incarnation_changed", "nonexistent_pool_tree",
	"root_volume_preparation_failed", "gpu_check_failed", "disk_overdraft", "other",
	"scheduling_timeout", "scheduling_resource_overcommit", "scheduling_operation_suspended", "scheduling_operation_disabled",
	"scheduling_other",
}

// String returns the name of the reason.
func (r AbortReason) String() string { return nameOf(abortReasonNames[:], r, "AbortReason") }

// MarshalText returns the name.
func (r AbortReason) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads the name.
func (r *AbortReason) UnmarshalText(text []byte) (err error) {
	*r, err = valueOf[AbortReason](abortReasonNames[:], text, "abort reason")
	return err
}

// BeforeStart reports whether the job was cancelled before any node knew of
// it. That does not count as a restart.
func (r AbortReason) BeforeStart() bool { return r >= AbortSchedulingTimeout && r < AbortReasonCount }

// Block is why an operation gets no jobs, whatever resources are free.
type Block uint8

const (
	NotBlocked Block = iota
	BlockedNotRunning
	BlockedSuspended
	BlockedFailing // it waits until running jobs have failed
	BlockedNoPendingJobs
	BlockedBackingOff // nodes could not start its jobs; see Backoff
	// BlockedByResources is returned by Schedule only: the job does not fit into
	// what is available.
	BlockedByResources

	blockCount
)

var blockNames = [blockCount]string{
	"none", "operation_not_running", "operation_suspended", "operation_failing", "no_pending_jobs", "backing_off", "not_enough_resources",
}

// String returns the name of the block.
func (b Block) String() string { return nameOf(blockNames[:], b, "Block") }

// ErrorCode is the code of an error that YTsaurus clients know.
type ErrorCode int

const (
	CodeGeneric           ErrorCode = 1
	CodeJobRestarted      ErrorCode = 210
	CodeMaxFailedJobs     ErrorCode = 215
	CodeMemoryLimitBroken ErrorCode = 1200
	CodeUserJobFailed     ErrorCode = 1205
)

// Error is why a job or an operation failed.
type Error struct {
	Code    ErrorCode `json:"code"`
	Message string    `json:"message"`
	Inner   []Error   `json:"inner_errors,omitempty"`
}

func (e *Error) Error() string { return e.Message }
