#!lua flags=allow-oom
-- Lease the head of a stage's queue: pop, lease, fence and attempt in one. Keys: requests.lua.
-- ARGV: stage claims_max lease_ms worker
-- Returns {now_us, batches, claims}
--   batches: {tenant, batch, task, task_number, deadline_us} each
--   claims:  {index in batches from 0, job, fence, attempt, static, payload, handover,
--             enqueued_us} each
--@include requests.lua

local stage, worker = ARGV[1], ARGV[4]
local popped = call('ZPOPMIN', P .. 'q:' .. stage, ARGV[2])
if #popped == 0 then
  call('ZREM', P .. 'm:' .. stage, '0')
  return { NOW_US, {}, {} }
end
local count = #popped / 2
local fence = call('INCRBY', P .. 'fence', count) - count
local expiry = NOW_MS + tonumber(ARGV[3])
local leases, claims, batches, index = {}, {}, {}, {}
for n = 1, count do
  local job = popped[2 * n - 1]
  local j = read_job(job)
  local uid = j.uid
  j.state, j.worker, j.claimed, j.fence = 'L', worker, NOW_US, fence + n
  j.attempts, j.claims = j.attempts + 1, j.claims + 1
  write_job(job, j)
  leases[2 * n - 1], leases[2 * n] = expiry, job
  if not index[uid] then
    batches[#batches + 1] = call('HMGET', P .. 'b:' .. uid, 'tenant', 'batch', 'task', 'tn',
      'deadline')
    index[uid] = #batches - 1
  end
  touch(uid).running = touch(uid).running + 1
  claims[n] = { index[uid], job, fence + n, j.attempts, j.static, call('GET', P .. 'p:' .. job),
    j.stages_gone > 0 and call('GET', P .. 'o:' .. job) or '', j.enqueued }
end
in_slices('ZADD', P .. 'l:' .. stage, leases)
write_touched()
if call('EXISTS', P .. 'q:' .. stage) == 1 then
  mark(stage) -- wakes the next sleeper
else
  call('ZREM', P .. 'm:' .. stage, '0')
end
return { NOW_US, batches, claims }
