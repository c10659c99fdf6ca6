package body

// field is a set of members that the gateway acts on.
type field uint32

const (
	fModel field = 1 << iota
	fStream
	fStreamOptions
	fMaxTokens
	fMaxCompletionTokens
	fMaxOutputTokens
	fN
	fBestOf
	fPriority
	fTransfer // kv_transfer_params
	fTransferEC
	fXargs
	fMessages
	fPrompt
	fPromptEmbeds
	fInput
	fTools
	fDocuments
	fTemperature
	fTopP
	fStop
	fResponseFormat
	fCacheSalt
)

const (
	everywhere = fModel | fStream | fPriority | fTransfer | fTransferEC | fXargs
	sampling   = fStreamOptions | fMaxTokens | fN | fBestOf | fTemperature | fTopP | fStop | fResponseFormat | fCacheSalt
)

// actedOn says which members mean something in a body of which kind. The rest
// passes unread, duplicates included. vLLM knows max_completion_tokens for
// chat only.
var actedOn = [...]field{
	Chat:        everywhere | sampling | fMaxCompletionTokens | fMessages | fTools | fDocuments,
	Completions: everywhere | sampling | fPrompt | fPromptEmbeds,
	Embeddings:  everywhere | fInput | fMessages | fTools | fCacheSalt,
	Other:       everywhere | fMaxTokens | fMaxCompletionTokens | fMaxOutputTokens,
}

// fixed are the members of which Scan remembers more than that they are
// there: a model's request must not replace them behind the gateway's back.
const fixed = fModel | fStream | fStreamOptions | fMaxTokens | fMaxCompletionTokens | fMaxOutputTokens |
	fN | fBestOf | fMessages | fPrompt | fPromptEmbeds | fInput

func lookup(name []byte) field {
	switch string(name) {
	case "model":
		return fModel
	case "stream":
		return fStream
	case "stream_options":
		return fStreamOptions
	case "max_tokens":
		return fMaxTokens
	case "max_completion_tokens":
		return fMaxCompletionTokens
	case "max_output_tokens":
		return fMaxOutputTokens
	case "n":
		return fN
	case "best_of":
		return fBestOf
	case "priority":
		return fPriority
	case "kv_transfer_params":
		return fTransfer
	case "ec_transfer_params":
		return fTransferEC
	case "vllm_xargs":
		return fXargs
	}
	return lookupContent(name)
}

func lookupContent(name []byte) field {
	switch string(name) {
	case "messages":
		return fMessages
	case "prompt":
		return fPrompt
	case "prompt_embeds":
		return fPromptEmbeds
	case "input":
		return fInput
	case "tools":
		return fTools
	case "documents":
		return fDocuments
	case "temperature":
		return fTemperature
	case "top_p":
		return fTopP
	case "stop":
		return fStop
	case "response_format":
		return fResponseFormat
	case "cache_salt":
		return fCacheSalt
	}
	return 0
}
