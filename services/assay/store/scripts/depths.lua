#!lua flags=no-writes
-- The queues of stages. Keys: requests.lua (q, l, dlq, j).
-- ARGV: stages      Returns {now_us, {queued, running, dead letters, oldest enqueued (us) or 0}...}
-- The oldest is the oldest head of a batch: arrival orders the requests of a batch. The heads of
-- HEADS_MAX batches are looked at.

local P, call = KEYS[1], redis.call
local HEADS_MAX = 100
local clock = call('TIME')

local function oldest(key)
  local first, after = 0, '-inf'
  for _ = 1, HEADS_MAX do
    local head = call('ZRANGEBYSCORE', key, after, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
    if #head == 0 then break end
    local enqueued = select(7, cmsgpack.unpack(call('HGET', P .. 'j:' .. head[1], 'D')))
    if first == 0 or enqueued < first then first = enqueued end
    after = '(' .. head[2]
  end
  return first
end

local found = { tonumber(clock[1]) * 1000000 + tonumber(clock[2]) }
for i, stage in ipairs(ARGV) do
  found[i + 1] = {
    call('ZCARD', P .. 'q:' .. stage), call('ZCARD', P .. 'l:' .. stage),
    call('ZCARD', P .. 'dlq:' .. stage), oldest(P .. 'q:' .. stage),
  }
end
return found
