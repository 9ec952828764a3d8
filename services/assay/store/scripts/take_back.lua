#!lua flags=allow-oom
-- Take back the leases of a worker host that is known to be dead, as failed attempts; a part of the
-- stage's leases per call. Keys: requests.lua.
-- ARGV: stage attempts_max letters_max letters_per_tenant_max worker error cursor count
-- Returns {cursor ('0' = all were looked at), redelivered, dead, completed: {slack_ms, HGETALL b} each}
--@include requests.lua
--@include shares.lua
--@include worker_time.lua
--@include task_use.lua
--@include gathering.lua
--@include letters.lua
--@include ends.lua

local stage, attempts_max = ARGV[1], tonumber(ARGV[2])
local letters_max, own_max = tonumber(ARGV[3]), tonumber(ARGV[4])
local worker, why = ARGV[5], ARGV[6]
--@include losing.lua

local found = call('ZSCAN', P .. 'l:' .. stage, ARGV[7], 'COUNT', ARGV[8])
local lost = {}
for i = 1, #found[2], 2 do -- each once, and none that a dead host holds is missed: it renews none
  local job = found[2][i]
  local j = read_job(job)
  if j and j.state == 'L' and j.stage == stage and j.worker == worker then
    lose(job, j, why)
    lost[#lost + 1] = job
  end
end
in_slices('ZREM', P .. 'l:' .. stage, lost)
write_touched()
delete(doomed)
return { found[1], redelivered, dead, completed }
