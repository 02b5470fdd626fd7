package events

import "encoding/json"

// withoutNulls makes raw JSON that is null what it is as if left out, where both mean the same. To run a call
// with null in the place of its arguments is nothing that anybody approves.
func withoutNulls(v any) {
	switch v := v.(type) {
	case *UserConfirmResult:
		v.Input = leftOut(v.Input)
	case *ExternalExecutionResult:
		v.StructuredContent = leftOut(v.StructuredContent)
	case *SuspendCall:
		v.Schema = leftOut(v.Schema)
	}
}

func leftOut(raw json.RawMessage) json.RawMessage {
	if string(raw) == "null" {
		return nil
	}
	return raw
}

// depthOf is the level at which the reading and writing of v begins; see [MaxDepth]. What others say is
// repeated inside of something else: an answer in the decision and in the work that follows, a question in
// a page of questions. So answers may nest less than the rest, and those pages more.
func depthOf(v any) int {
	const pages = -8
	switch v.(type) {
	case UserConfirmResult, *UserConfirmResult: // its input becomes that of a call of a turn
		return 2
	case ExternalExecutionResult, *ExternalExecutionResult, SuspendCall, *SuspendCall:
		return 1
	case QuestionsReply, *QuestionsReply, QuestionReply, *QuestionReply, DecisionsReply, *DecisionsReply:
		return pages
	}
	return 0
}
