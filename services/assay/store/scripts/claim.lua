#!lua flags=allow-oom
-- Lease what is next in a stage's queue: pop, lease, fence and attempt in one. Keys: requests.lua.
-- ARGV: stage claims_max lease_ms worker, and the tenants whose requests stay where they are ...
-- Returns {now_us, batches, claims}
--   batches: {tenant, batch, task, task_number, deadline_us, weight} each
--   claims:  {index in batches from 0, job, fence, attempt, static, payload, handover,
--             enqueued_us, members} each
--   members: {job, static, payload, handover} each, in one list; only of a group's own job
-- With claims_max 0 nothing is leased: work that waits wakes the next sleeper.
-- A tenant that is left out neither earns credit nor wakes a sleeper.
-- With one tenant, a plain pop. Otherwise a heap of the tenants with the smallest virtual times: at
-- most `claims_max` of them can be served.
--@include requests.lua
--@include shares.lua
--@include gathering.lua

local stage, claims_max, worker = ARGV[1], tonumber(ARGV[2]), ARGV[4]
local waiting, shares = P .. 's:' .. stage, P .. 'sv:' .. stage
local ANSWERS_NOTED = 16 -- as in core/store_limits.py
local left_out = { unpack(ARGV, 5) }
local first = call('ZRANGE', waiting, 0, math.max(claims_max, 1) - 1 + #left_out, 'WITHSCORES')
if #first == 0 then
  call('ZREM', P .. 'm:' .. stage, '0')
  return { NOW_US, {}, {} }
end
if #left_out > 0 then
  local is_left_out, others = {}, {}
  for _, tenant in ipairs(left_out) do is_left_out[tenant] = true end
  for i = 1, #first, 2 do
    if not is_left_out[first[i]] then
      others[#others + 1] = first[i]
      others[#others + 1] = first[i + 1]
    end
  end
  if #others == 0 then return { NOW_US, {}, {} } end
  first = others
end
if claims_max == 0 then
  mark(stage)
  return { NOW_US, {}, {} }
end
local fence -- before the first of these claims
local expiry = NOW_MS + tonumber(ARGV[3])
local leases, claims, batches, index, running = {}, {}, {}, {}, {}
local wanted, owners, places = {}, {}, {} -- keys of contents; the table and the index of each

local function batch_of(uid)
  if not index[uid] then
    batches[#batches + 1] = call('HMGET', P .. 'b:' .. uid, 'tenant', 'batch', 'task', 'tn',
      'deadline', 'weight')
    index[uid] = #batches - 1
  end
  return batches[index[uid] + 1]
end

local function want(key, into, at)
  local n = #wanted + 1
  wanted[n], owners[n], places[n] = key, into, at
end

-- The requests of a group, each with what it brings.
local function lease_members(j)
  local members = {}
  for _, name in ipairs(members_of(j)) do
    local member, at = read_job(name, true), #members
    members[at + 1], members[at + 2], members[at + 3], members[at + 4] = name, member.static, '', ''
    want(P .. 'p:' .. name, members, at + 3)
    if member.stages_gone > 0 then want(P .. 'o:' .. name, members, at + 4) end
  end
  return members
end

local function lease(job, j)
  local n = #claims + 1
  batch_of(j.uid)
  j.state, j.worker, j.claimed, j.fence = 'L', worker, NOW_US, fence + n
  j.attempts, j.claims = j.attempts + 1, j.claims + 1
  write_job(job, j)
  leases[2 * n - 1], leases[2 * n] = expiry, job
  local claim = { index[j.uid], job, j.fence, j.attempts, j.static, '', '', j.enqueued }
  claims[n] = claim
  local requests = 1
  if is_group(job) then
    claim[9] = lease_members(j)
    requests = #claim[9] / 4
  else
    want(P .. 'p:' .. job, claim, 6)
    if j.stages_gone > 0 then want(P .. 'o:' .. job, claim, 7) end
  end
  running[j.uid] = (running[j.uid] or 0) + requests
end

-- Payloads and hand-overs, all in one command, or few.
local function read_contents()
  for from = 1, #wanted, SLICE do
    local contents = call('MGET', unpack(wanted, from, math.min(from + SLICE - 1, #wanted)))
    for i, content in ipairs(contents) do
      owners[from + i - 1][places[from + i - 1]] = content
    end
  end
end

-- Take this many fences; returns the one before the first. The clock is the lower bound, so that a
-- server that lost its last writes issues no fence twice.
local function take_fences(count)
  local last = tonumber(call('SET', P .. 'fence', NOW_US + count, 'GET') or 0)
  if last <= NOW_US then return NOW_US end
  call('SET', P .. 'fence', last + count)
  return last
end

-- No other tenant waits, so virtual times are not kept.
local function claim_alone(tenant)
  local queue = P .. 'q:' .. stage .. ':' .. tenant
  local popped = call('ZPOPMIN', queue, claims_max)
  fence = take_fences(#popped / 2)
  for i = 1, #popped, 2 do
    local j = read_job(popped[i], true)
    j.charged = 0
    lease(popped[i], j)
  end
  if #popped == 2 * claims_max and call('EXISTS', queue) == 1 then return true end
  call('DEL', waiting)
  return false
end

local function in_bytes(one, other)
  for i = 1, math.min(#one, #other) do
    local a, b = string.byte(one, i), string.byte(other, i)
    if a ~= b then return a < b end
  end
  return #one < #other
end

local function before(one, other)
  if one.virtual_us ~= other.virtual_us then return one.virtual_us < other.virtual_us end
  return in_bytes(one.tenant, other.tenant)
end

-- `heap[1]` may have to move down; the rest is in order.
local function sift(heap)
  local at = 1
  while true do
    local child = 2 * at
    if child > #heap then return end
    if child < #heap and before(heap[child + 1], heap[child]) then child = child + 1 end
    if not before(heap[child], heap[at]) then return end
    heap[at], heap[child] = heap[child], heap[at]
    at = child
  end
end

local function expected_us(costs, tenant)
  if not costs[tenant] then
    local known = call('HMGET', P .. 'cost:' .. stage, tenant, '')
    costs[tenant] = tonumber(known[1] or known[2] or COST_US_MIN)
  end
  return costs[tenant]
end

-- Whether others wait than those left out, who have earned nothing meanwhile.
local function others_wait(now_us)
  local others = call('ZCARD', waiting)
  for _, tenant in ipairs(left_out) do
    local virtual_us = tonumber(call('ZSCORE', waiting, tenant) or '')
    if virtual_us then
      others = others - 1
      if virtual_us < now_us then call('ZADD', waiting, now_us, tenant) end
    end
  end
  return others > 0
end

local function claim_in_turn(since, now_us)
  local heap, costs, moved = {}, {}, {}
  fence = take_fences(0)
  for i = 1, #first, 2 do -- sorted, so already a heap
    heap[#heap + 1] = { tenant = first[i], virtual_us = tonumber(first[i + 1]) }
  end
  while #claims < claims_max and #heap > 0 do
    local top = heap[1]
    local job = call('ZPOPMIN', P .. 'q:' .. stage .. ':' .. top.tenant)[1]
    if not job then
      moved[top.tenant] = top.virtual_us
      heap[1] = heap[#heap]
      heap[#heap] = nil
    else
      local j = read_job(job, true)
      if j.charged == 0 or j.fence <= since then
        now_us = math.max(now_us, top.virtual_us)
        j.weight = tonumber(batch_of(j.uid)[6] or 1)
        j.charged = advance_us(expected_us(costs, top.tenant), j.weight)
        top.virtual_us = top.virtual_us + j.charged
      end
      moved[top.tenant] = top.virtual_us
      lease(job, j)
    end
    sift(heap)
  end
  call('SET', P .. 'fence', fence + #claims)
  call('HSET', shares, 'now', now_us)
  for tenant, virtual_us in pairs(moved) do
    call('ZADD', waiting, 'XX', virtual_us, tenant)
    leave_if_empty(stage, tenant)
  end
  call('ZREMRANGEBYSCORE', P .. 'sd:' .. stage, '-inf', now_us)
  return others_wait(now_us)
end

-- Until the leases run out: should the answer not arrive, undelivered.lua gives them back.
local function note_answer()
  local key, jobs = P .. 'lc:' .. stage .. ':' .. worker, {}
  for i, claim in ipairs(claims) do jobs[i] = claim[2] end
  call('RPUSH', key, cmsgpack.pack(jobs))
  call('LTRIM', key, -ANSWERS_NOTED, -1)
  call('PEXPIRE', key, ARGV[3])
end

local since, more = {}, false
if tonumber(first[2]) ~= ALONE then since = call('HMGET', shares, 'since', 'now') end
if since[1] or #first > 2 then
  more = claim_in_turn(tonumber(since[1] or 0), tonumber(since[2] or 0))
else
  more = claim_alone(first[1])
end
read_contents()
if #claims > 0 then note_answer() end
in_slices('ZADD', P .. 'l:' .. stage, leases)
for uid, count in pairs(running) do call('HINCRBY', P .. 'b:' .. uid, 'running', count) end
if more then
  mark(stage) -- wakes the next sleeper
elseif #left_out == 0 or call('EXISTS', waiting) == 0 then
  call('ZREM', P .. 'm:' .. stage, '0')
end
return { NOW_US, batches, claims }
