#!lua flags=allow-oom
-- Give back, without an attempt, what a worker was leased last and does not hold: the answer to its
-- claim was lost, so it has begun none of it. Keys: requests.lua.
-- ARGV: stage worker jobs_max, then job fence each, the newest that it holds
-- Returns how many; as many as jobs_max: there may be more
--@include requests.lua
--@include shares.lua
--@include worker_time.lua
--@include task_use.lua
--@include gathering.lua
--@include letters.lua
--@include ends.lua

local stage, worker, jobs_max = ARGV[1], ARGV[2], tonumber(ARGV[3])
local held, given = {}, {}
for i = 4, #ARGV, 2 do -- it may hold a request twice: by a lease that it does not know to be lost
  held[ARGV[i]] = held[ARGV[i]] or {}
  held[ARGV[i]][tonumber(ARGV[i + 1])] = true
end

local function is_unknown(job, j)
  if not j or j.state ~= 'L' or j.stage ~= stage or j.worker ~= worker then return false end
  if held[job] and held[job][j.fence] then return false end
  return tonumber(call('ZSCORE', P .. 'l:' .. stage, job) or 0) > NOW_MS
end

for _, jobs in ipairs(call('LRANGE', P .. 'lc:' .. stage .. ':' .. worker, 0, -1)) do
  for _, job in ipairs(cmsgpack.unpack(jobs)) do
    local j = #given < jobs_max and read_job(job)
    if is_unknown(job, j) then
      j.attempts, j.claims = j.attempts - 1, j.claims - 1
      deliver_again(job, j, '')
      given[#given + 1] = job
    end
  end
end
in_slices('ZREM', P .. 'l:' .. stage, given)
write_touched()
return #given
