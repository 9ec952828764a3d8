#!lua flags=no-writes
-- The queues of stages. Keys: requests.lua (s, q, l, dlq, j).
-- ARGV: stages      Returns {now_us, {queued, running, dead letters, oldest enqueued (us) or 0}...}
-- The oldest is the oldest head of a batch: arrival orders the requests of a batch. The heads of
-- up to HEADS_MAX batches are examined, at least one per tenant.

local P, call = KEYS[1], redis.call
local HEADS_MAX = 100
local clock = call('TIME')

local function oldest(key, heads_max)
  local first, after = nil, '-inf'
  for _ = 1, heads_max do
    local head = call('ZRANGEBYSCORE', key, after, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
    if #head == 0 then break end
    local enqueued = select(7, cmsgpack.unpack(call('HGET', P .. 'j:' .. head[1], 'D')))
    if not first or enqueued < first then first = enqueued end
    after = '(' .. head[2]
  end
  return first
end

local found = { tonumber(clock[1]) * 1000000 + tonumber(clock[2]) }
for i, stage in ipairs(ARGV) do
  local tenants = call('ZRANGE', P .. 's:' .. stage, 0, -1)
  local heads_max = math.max(1, math.floor(HEADS_MAX / math.max(1, #tenants)))
  local queued, first = 0, 0
  for _, tenant in ipairs(tenants) do
    local key = P .. 'q:' .. stage .. ':' .. tenant
    queued = queued + call('ZCARD', key)
    local enqueued = oldest(key, heads_max)
    if enqueued and (first == 0 or enqueued < first) then first = enqueued end
  end
  found[i + 1] = {
    queued, call('ZCARD', P .. 'l:' .. stage), call('ZCARD', P .. 'dlq:' .. stage), first,
  }
end
return found
