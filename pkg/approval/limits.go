package approval

const (
	// maxApprovals bounds the approvals in a Session: far more than a person
	// gives. A further approval is valid for one attempt.
	maxApprovals = 4096
)
