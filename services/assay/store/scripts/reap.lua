#!lua flags=allow-oom
-- Take back expired leases of a stage; end overdue batches; continue with batches whose end is in
-- progress; drop the dead letters of batches that are gone; move the jobs of a queue of the former
-- layout to their tenants' queues; drop jobs that were staged and not submitted; release jobs that
-- were held back by a process that is gone. Keys: requests.lua.
-- ARGV: stage attempts_max jobs_max letters_max letters_per_tenant_max lease_ran_out (error)
-- Returns {redelivered, dead, expired, completed: {slack_ms, HGETALL b} each}
--@include requests.lua
--@include shares.lua
--@include worker_time.lua
--@include task_use.lua
--@include new_jobs.lua
--@include gathering.lua
--@include letters.lua
--@include ends.lua
--@include settling.lua

local stage, attempts_max = ARGV[1], tonumber(ARGV[2])
local jobs_max, letters_max, own_max = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local lease_ran_out = ARGV[6]
local BATCHES_MAX = 8
local HELD_MS_MAX = 10000 -- then the process that held jobs back is gone
local expired = 0
--@include losing.lua

local former = call('ZPOPMIN', P .. 'q:' .. stage, jobs_max)
for i = 1, #former, 2 do
  local j = read_job(former[i])
  if j and j.state == 'Q' and j.stage == stage then enqueue(stage, former[i], j.uid) end
end

local lost = call('ZRANGEBYSCORE', P .. 'l:' .. stage, '-inf', NOW_MS, 'LIMIT', 0, jobs_max)
for _, job in ipairs(lost) do lose(job, read_job(job), lease_ran_out) end
in_slices('ZREM', P .. 'l:' .. stage, lost)
write_touched()

for _, uid in ipairs(call('ZRANGEBYSCORE', P .. 'due', '-inf', NOW_MS, 'LIMIT', 0, BATCHES_MAX)) do
  local state = call('HGET', P .. 'b:' .. uid, 'state')
  if state == 'OPEN' then call('HSET', P .. 'b:' .. uid, 'state', 'SEALED') end
  if call('HGET', P .. 'b:' .. uid, 'closing') == '' then
    call('HSET', P .. 'b:' .. uid, 'closing', 'EXPIRED')
  end
  call('ZREM', P .. 'due', uid)
  call('ZADD', P .. 'closing', 'NX', NOW_MS, uid)
end

local closing = call('ZRANGE', P .. 'closing', 0, BATCHES_MAX - 1)
local left = jobs_max
for _, uid in ipairs(closing) do
  local ended = 0
  if left > 0 then ended = settle(uid, left) end
  left = left - ended
  expired = expired + ended
end
write_touched()
for _, uid in ipairs(closing) do settle_groups(uid, jobs_max) end

for _, uid in ipairs(call('ZRANGEBYSCORE', P .. 'gone', '-inf', NOW_MS, 'LIMIT', 0, BATCHES_MAX)) do
  drop_letters(uid, jobs_max)
  if call('EXISTS', P .. 'dead:' .. uid) == 0 then call('ZREM', P .. 'gone', uid) end
end

local until_ms = NOW_MS - HELD_MS_MAX
for _, uid in ipairs(call('ZRANGEBYSCORE', P .. 'holding', '-inf', until_ms, 'LIMIT', 0, 1)) do
  release(uid, jobs_max)
end
write_touched()

local staged = call('ZRANGEBYSCORE', P .. 'staged', '-inf', NOW_MS, 'LIMIT', 0, BATCHES_MAX)
for _, name in ipairs(staged) do
  local first, count = string.match(name, '^(%d+) (%d+)$')
  unstage(tonumber(first), tonumber(count))
end

delete(doomed)
if call('EXISTS', P .. 's:' .. stage) == 1 then
  mark(stage) -- the waiter that was woken last may have died
else
  call('ZREM', P .. 'm:' .. stage, '0')
end
return { redelivered, dead, expired, completed }
