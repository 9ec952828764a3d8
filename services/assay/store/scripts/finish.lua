#!lua flags=allow-oom
-- Report the ends of claims. Keys: requests.lua.
-- ARGV: stage attempts_max letters_max, then for each report
--       kind job fence started_ns finished_ns first second third
--   END      outcome reward body        GIVEBACK
--   HANDOVER next_stage handover        FAIL      error
-- Returns {statuses (1 done, 0 stale), completed: {tenant, batch, slack_ms} each}
--@include requests.lua

local stage, attempts_max, letters_max = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local HEAD, WIDTH = 3, 8
local statuses, released = {}, {}

local act = {}

function act.END(job, j, at)
  local started, finished = ARGV[at + 3], ARGV[at + 4]
  end_request(job, j, true, ARGV[at + 5], ARGV[at + 6], ARGV[at + 7], '',
    timing(j, started, finished), service(j, started, finished))
  drop_job(job, j)
end

function act.HANDOVER(job, j, at)
  local started, finished = ARGV[at + 3], ARGV[at + 4]
  touch(j[UID]).running = touch(j[UID]).running - 1
  call('HSET', P .. 'j:' .. job, 's', 'Q', 't', ARGV[at + 5], 'h', ARGV[at + 6], 'a', 0,
    'e', NOW_US, 'x', '', 'u', tonumber(j[STAGES_GONE] or 0) + 1,
    'm', (j[TIMINGS] or '') .. timing(j, started, finished),
    'v', (j[SERVICES] or '') .. service(j, started, finished))
  enqueue(ARGV[at + 5], job, j[UID])
end

function act.FAIL(job, j, at)
  if tonumber(j[ATTEMPTS]) < attempts_max then
    deliver_again(job, j, ARGV[at + 5], true)
  else
    local started, finished = ARGV[at + 3], ARGV[at + 4]
    bury(job, j, true, ARGV[at + 5], timing(j, started, finished), service(j, started, finished),
      letters_max)
  end
end

function act.GIVEBACK(job, j)
  deliver_again(job, j, '', false)
end

for at = HEAD + 1, #ARGV, WIDTH do
  local job = ARGV[at + 1]
  local j = read_job(job)
  local n = #statuses + 1
  if j[STATE] == 'L' and j[FENCE] == ARGV[at + 2] and j[STAGE] == stage then
    act[ARGV[at]](job, j, at)
    released[#released + 1] = job
    statuses[n] = 1
  else
    statuses[n] = 0
  end
end
in_slices('ZREM', P .. 'l:' .. stage, released)
write_touched()
return { statuses, completed }
