"""The official Python SDK against a gateway: only base URL and key are set."""
import sys

import openai

client = openai.OpenAI()
messages = [{"role": "user", "content": "hello"}]
failures = 0


def check(name, ok):
    global failures
    print(("ok   " if ok else "FAIL ") + name)
    failures += not ok


def error_of(call):
    try:
        call()
    except openai.OpenAIError as e:
        return e
    return None


answer = client.chat.completions.create(model="mete", messages=messages)
check("asks", answer.choices[0].message.content and answer.usage.completion_tokens > 0)

stream = client.chat.completions.create(model="mete", messages=messages, stream=True, stream_options={"include_usage": True})
chunks = list(stream)
check("streams", "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) != "")
check("gets usage when it asks", chunks[-1].usage is not None and chunks[-1].usage.completion_tokens > 0)

tools = [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}}]
answer = client.chat.completions.create(model="mete", messages=[{"role": "user", "content": "use the tool"}], tools=tools)
check("calls tools", answer.choices[0].message.tool_calls[0].function.name == "weather")

check("lists models", [m.id for m in client.models.list()] == ["mete", "mete-thinking"])

e = error_of(lambda: client.chat.completions.create(model="nope", messages=messages))
check("unknown model", isinstance(e, openai.NotFoundError) and e.code == "model_not_found")
e = error_of(lambda: client.with_options(api_key="sk-other").chat.completions.create(model="mete", messages=messages))
check("bad key", isinstance(e, openai.AuthenticationError) and e.code == "invalid_api_key")
e = error_of(lambda: client.chat.completions.create(model="mete", messages=messages, temperature=3))
check("bad temperature", isinstance(e, openai.BadRequestError) and e.param == "temperature")

for fault in ("cut; at=700", "cut; at=700; how=rst"):
    stream = client.chat.completions.create(model="mete", messages=messages, stream=True, extra_body={"sim_fault": fault})
    try:
        list(stream)
        died = False
    except Exception:  # httpx's own errors are not the SDK's
        died = True
    check("sees a stream that died: " + fault, died)

sys.exit(1 if failures else 0)
