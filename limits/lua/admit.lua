-- Decides one request: the key's state, every window, and a concurrency slot,
-- all or nothing. Nothing is written unless the request is let in.
--
-- KEYS[1]  hash of the windows   KEYS[2]  sorted set of the live requests
-- KEYS[3]  hash of the key       all three in the owner's hash slot
-- ARGV[1]  the gateway's own id of the request
-- ARGV[2]  the plan that the gateway believes the key to have
-- ARGV[3]  deadline, microseconds of Redis's clock, 0 for none. A command that
--          was stuck somewhere until its caller gave up must not charge anybody
-- ARGV[4]  lease, microseconds
-- ARGV[5]  1: do not look at the key; 2: write nothing; 3: both
-- ARGV[6]  limit of concurrent requests, 0 for none
-- ARGV[7]  how long the windows are kept without use, milliseconds
-- ARGV[8]  onwards, per window: name, width of a bucket in microseconds, limit, cost
--
-- Gives whole numbers: verdict, now, live requests, and when refused which
-- window (from 0; -1 is concurrency), microseconds until all windows let it in,
-- the same for request windows alone; then per window its bucket and its sum.
local OK, EXCEEDED, PLAN, GONE, REVOKED, EXPIRED, LATE = 0, 1, 2, 3, 4, 5, 6

local now = clock()
local deadline = tonumber(ARGV[3])
if deadline > 0 and now > deadline then return {LATE, now} end

local mode = tonumber(ARGV[5])
if mode % 2 == 0 then
  local key = redis.call('HMGET', KEYS[3], 'plan', 'revoked', 'expires')
  if not key[1] then return {GONE, now} end
  -- Any time of revocation counts, one in the future too: clocks differ.
  if key[2] and key[2] ~= '0' and key[2] ~= '' then return {REVOKED, now} end
  local expires = tonumber(key[3] or '0') or 0
  if expires > 0 and expires * 1000 <= now then return {EXPIRED, now} end
  if key[1] ~= ARGV[2] then return {PLAN, now} end
end

-- Windows as they stand now.
local names = {}
for a = 8, #ARGV, 4 do fields(names, ARGV[a], math.floor(now / ARGV[a + 1])) end
local read = #names > 0 and redis.call('HMGET', KEYS[1], unpack(names)) or {}

local reply = {OK, now, 0, -1, 0, 0}
local drop, set, moved = {}, {}, false
for a = 8, #ARGV, 4 do
  local name, width, limit, cost = ARGV[a], tonumber(ARGV[a + 1]), tonumber(ARGV[a + 2]), tonumber(ARGV[a + 3])
  local f, gone = (a - 8) / 4 * 3, {}
  local k, s, b, m = roll(KEYS[1], name, math.floor(now / width), read[f + 1], read[f + 2], read[f + 3], gone)
  if s + cost > limit then
    local us = wait(KEYS[1], name, width, limit, cost, k, s, now, gone)
    if us > reply[5] then reply[4], reply[5] = (a - 8) / 4, us end
    if string.sub(name, 1, 1) == 'r' and us > reply[6] then reply[6] = us end
    reply[1] = EXCEEDED
  end
  moved = moved or m
  for i = 1, #gone do drop[#drop + 1] = gone[i] end
  local n = #set
  set[n + 1], set[n + 2], set[n + 3], set[n + 4] = name .. 'e', k, name .. 's', s + cost
  set[n + 5], set[n + 6] = name .. k % (BUCKETS + 1), b + cost
  local r = #reply
  reply[r + 1], reply[r + 2] = k, s
end

local concurrent = tonumber(ARGV[6])
if concurrent > 0 or mode >= 2 then
  reply[3] = redis.call('ZCOUNT', KEYS[2], '(' .. string.format('%.0f', now), '+inf')
  if concurrent > 0 and reply[3] >= concurrent then
    if reply[5] < 1000000 then reply[5] = 1000000 end
    reply[1] = EXCEEDED
  end
end
if mode >= 2 then return reply end

-- A repeated command finds its lease and charges nothing a second time. What
-- it charged is in the buckets of the moment at which the lease was taken.
local function repeated(lease_end)
  reply[1], reply[4], reply[5], reply[6] = OK, -1, 0, 0
  for a = 8, #ARGV, 4 do
    reply[7 + (a - 8) / 2] = math.floor((lease_end - ARGV[4]) / ARGV[a + 1])
  end
  return reply
end

if reply[1] == EXCEEDED then
  local held = redis.call('ZSCORE', KEYS[2], ARGV[1])
  if held then return repeated(held) end
  return reply
end
-- The first write is one that Redis refuses when it is out of memory, so that
-- nothing is half written.
local lease_end = string.format('%.0f', now + ARGV[4])
if redis.call('ZADD', KEYS[2], 'NX', lease_end, ARGV[1]) == 0 then
  return repeated(redis.call('ZSCORE', KEYS[2], ARGV[1]))
end
redis.call('PEXPIRE', KEYS[2], math.ceil(ARGV[4] / 1000) + 1000)
reply[3] = reply[3] + 1
if #set > 0 then
  if #drop > 0 then redis.call('HDEL', KEYS[1], unpack(drop)) end
  redis.call('HSET', KEYS[1], unpack(set))
  if moved then redis.call('PEXPIRE', KEYS[1], ARGV[7]) end
  for i = 8, #reply, 2 do reply[i] = reply[i] + ARGV[11 + (i - 8) * 2] end
end
return reply
